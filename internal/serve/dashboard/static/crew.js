// Agents work between two events too, so this page asks again what they are doing. Open lists stay open.
"use strict";

setInterval(() => {
  if (!document.hidden && document.querySelector(".crew") && !document.querySelector("#crew details[open]")) refresh();
}, 3000);
