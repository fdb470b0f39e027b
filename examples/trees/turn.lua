-- An agent's turns, decided by what the model signals.
--
-- Each turn calls the model, handles its signal (parse, update, log, strip, in this order), and routes on it. The routing
-- is one selector: it takes the first branch whose condition is true. Try it without a model:
--
--     signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies

BT.subtree("hear-signal", {
    description = "Hear what the reply signals, and take the signal out of the text",
    root = BT.sequence({
        BT.action("parse-signal", { fn = "parse_response_signal" }),
        BT.action("update-signal-state", { fn = "update_signal_state" }),
        BT.always_succeed(BT.action("log-signal", { fn = "log_signal" })),
        BT.action("strip-signal", { fn = "strip_signal_from_response" }),
    }),
})

-- FAILURE means that another turn is needed, SUCCESS that the text is the answer.
BT.subtree("route", {
    root = BT.selector({
        BT.sequence("give-up", {
            BT.selector({
                BT.condition("is-stuck", { fn = "signal_type_is", args = { expected_type = "stuck" } }),
                BT.condition("goes-in-circles", { fn = "consecutive_same_reason_gte", args = { count = 3 } }),
            }),
            BT.script("say-so", function(t)
                t:set("answer", "I could not find out. So far: " .. t:get("accumulated_content"))
            end),
        }),
        BT.sequence("answer", {
            BT.selector({
                BT.condition("context-sufficient", { fn = "signal_type_is", args = { expected_type = "context_sufficient" } }),
                BT.condition("partial-answer", { fn = "signal_type_is", args = { expected_type = "partial_answer" } }),
                BT.condition("silent-for-long", { fn = "turns_without_signal_gte", args = { count = 3 } }),
            }),
            BT.script("keep-answer", function(t)
                t:set("answer", t:get("accumulated_content"))
            end),
        }),
    }),
})

return BT.tree("turn", {
    description = "Ask a model until its signal says that it is done",
    blackboard = {
        question = { type = "string", default = "What does the auth function do?" },
        answer = "string",
    },
    root = BT.sequence({
        BT.action("begin", { fn = "reset_state" }),
        BT.repeat_until({ what = "success", max = 10 }, BT.sequence("agent-turn", {
            BT.script("build-request", function(t)
                t:set("llm_request", t:get("question"))
            end),
            BT.llm_call("think", {}),
            BT.subtree("hear-signal"),
            BT.subtree("route"),
        })),
    }),
})
