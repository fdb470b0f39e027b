-- The oracle: a conversation agent that knows when to continue, when to stop and when it is stuck.
--
-- A turn is: ask the model, make the tool calls in its reply, hear its signal (parse, update, log, strip, in this order),
-- and decide by the table in docs/reference/oracle.md. Turns follow each other until one fails.
--
-- What stands here can be replaced: copy the file, change it, and name it as `tree` under `oracle` in the configuration.

BT.subtree("hear", {
    description = "Hear what the reply signals, and take the signal out of the text",
    root = BT.sequence({
        BT.action("parse", { fn = "parse_response_signal" }),
        BT.action("update", { fn = "update_signal_state" }),
        BT.action("log", { fn = "log_signal" }),
        BT.action("strip", { fn = "strip_signal_from_response" }),
    }),
})

BT.subtree("go-on", {
    description = "Prepare the next turn",
    root = BT.sequence({
        BT.selector("hand-over", {
            BT.inverter(BT.condition("delegate", { fn = "decision_is", args = { decision = "delegate" } })),
            BT.tool("delegate"),
        }),
        BT.action("advise", { fn = "advise" }),
    }),
})

return BT.tree("oracle", {
    description = "Answer a question with a model and tools, turn by turn",
    root = BT.sequence({
        BT.action("begin", { fn = "reset_state" }),
        BT.repeat_until("failure", BT.sequence("turn", {
            BT.llm_call("think", {}),
            BT.selector("tools", {
                BT.inverter(BT.condition("calls", { fn = "has_tool_calls" })),
                BT.tool("call_tools"),
            }),
            BT.subtree("hear"),
            BT.action("decide", { fn = "decide" }),
            BT.inverter(BT.condition("over", { fn = "decision_ends" })),
            BT.subtree("go-on"),
        })),
        -- A turn fails because the conversation is over, or because there was no reply. Only the first is a success.
        BT.condition("over", { fn = "decision_ends" }),
    }),
})
