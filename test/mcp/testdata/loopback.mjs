// Has a server listen on the loopback address only, at any free port, and say which.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  this.once("listening", () => console.error(`port ${this.address().port}`));
  return listen.call(this, 0, "127.0.0.1", ...rest);
};
