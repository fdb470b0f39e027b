-- A critic that looks first and decides afterwards. Text that it writes while it looks is not a verdict: a separate turn,
-- without tools, asks for that. If the model cannot be reached in either step, the tree sends no signal, and the run starts
-- another critic. So no work passes that was not read.
--
--     agents:
--       careful-critic: {tree: critic.lua, model: main}
--     roles:
--       critic: {agent: careful-critic}

BT.subtree("hear", {
    root = BT.sequence({
        BT.action("parse", { fn = "parse_response_signal" }),
        BT.action("update", { fn = "update_signal_state" }),
        BT.action("log", { fn = "log_signal" }),
        BT.action("strip", { fn = "strip_signal_from_response" }),
    }),
})

return BT.tree("critic", {
    description = "Look at the work, then give a verdict",
    root = BT.sequence({
        BT.action("begin", { fn = "reset_state" }),
        BT.repeat_until({ what = "failure", max = 20 }, BT.sequence("look", {
            BT.llm_call("read", {}),
            BT.condition("calls", { fn = "has_tool_calls" }),
            BT.tool("call_tools"),
            BT.subtree("hear"),
        })),
        -- Looking ends when the model asks for nothing more, or when there was no reply. Only the first leads to a verdict.
        BT.inverter(BT.condition("no-reply", { fn = "model_failed" })),
        BT.llm_call("judge", {
            tools = false,
            prompt = "You have seen enough. Give your verdict now, as the task says: one line with one of its signals, then why.",
        }),
        BT.subtree("hear", { name = "hear-verdict" }),
    }),
})
