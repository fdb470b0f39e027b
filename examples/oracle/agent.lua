-- An agent for any role of a run: takes turns until the model signals that it is done, by the decision table of the oracle.
--
--     agents:
--       worker: {tree: agent.lua, model: main, tools: [write_file]} -- it always has the read-only tools

return BT.tree("agent", {
    description = "Work on a task with a model and tools, turn by turn",
    root = BT.sequence({
        BT.action("begin", { fn = "reset_state" }),
        BT.repeat_until("failure", BT.sequence("turn", {
            BT.llm_call("think", {}),
            BT.selector("tools", {
                BT.inverter(BT.condition("calls", { fn = "has_tool_calls" })),
                BT.tool("call_tools"),
            }),
            BT.action("parse", { fn = "parse_response_signal" }),
            BT.action("update", { fn = "update_signal_state" }),
            BT.action("log", { fn = "log_signal" }),
            BT.action("strip", { fn = "strip_signal_from_response" }),
            BT.action("decide", { fn = "decide" }),
            BT.inverter(BT.condition("over", { fn = "decision_ends" })),
            BT.action("advise", { fn = "advise" }),
        })),
        BT.condition("over", { fn = "decision_ends" }),
    }),
})
