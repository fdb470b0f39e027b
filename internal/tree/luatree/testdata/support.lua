-- An assistant that looks things up, asks a model and routes by what the model says of its turn.
local function escalate(t)
  t:emit("escalated", { to = t:arg("to"), question = t:get("question") })
  if t:get("question") == "" then
    return t:fail("there is nothing to ask")
  end
end

return BT.tree("support", {
  blackboard = {
    question = { type = "string", default = "?" },
    answer = "string",
    tries = { type = "int", default = 0 },
  },
  root = BT.sequence({
    BT.retry("look up", { attempts = 3, backoff = 2 }, BT.tool("search", { args = { q = BT.key("question") } })),
    BT.llm_call("model", { system = "be brief" }),
    BT.action("parse", { fn = "parse_response_signal" }),
    BT.selector("route", {
      BT.sequence("stuck", {
        BT.condition("is-stuck", { fn = "signal_type_is", args = { expected_type = "stuck" } }),
        BT.action("escalate", { fn = escalate, args = { to = "people" } }),
      }),
      BT.sequence("answer", {
        BT.wait("pause", 30),
        BT.script("copy", function(t)
          t:set("answer", t:get("llm_response"))
        end),
      }),
    }),
  }),
})
