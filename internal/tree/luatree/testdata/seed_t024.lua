--[[
    Agent Turn Subtree (modified for T024)
--]]
BT.subtree("agent-turn", {
    description = "Single agent turn with signal processing",

    root = BT.sequence({
        -- Build and execute LLM call (existing)
        BT.action("build-llm-request", {
            fn = "backend.src.bt.actions.oracle.build_llm_request"
        }),

        BT.llm_call({ --[[ existing config ]] }),

        -- NEW: Signal processing phase (T024)
        BT.always_succeed(
            BT.sequence({
                BT.action("parse-signal", {
                    fn = "backend.src.bt.actions.signal_actions.parse_response_signal",
                    description = "Parse XML signal from LLM response"
                }),
                BT.action("update-signal-state", {
                    fn = "backend.src.bt.actions.signal_actions.update_signal_state",
                    description = "Track consecutive reasons for loop detection"
                }),
                BT.always_succeed(
                    BT.action("log-signal", {
                        fn = "backend.src.bt.actions.signal_actions.log_signal"
                    })
                ),
                BT.action("strip-signal", {
                    fn = "backend.src.bt.actions.signal_actions.strip_signal_from_response",
                    description = "Remove signal XML from user-visible content"
                })
            })
        ),

        -- NEW: Signal-based routing (T024)
        BT.selector({
            -- If stuck signal, acknowledge and exit
            BT.sequence({
                BT.condition("is-stuck", {
                    fn = "backend.src.bt.conditions.signals.signal_type_is",
                    args = { expected_type = "stuck" }
                }),
                -- Let the response through - agent already acknowledged
                BT.action("noop", { fn = "backend.src.bt.actions.oracle.noop" })
            }),

            -- If context_sufficient, ready for final answer
            BT.sequence({
                BT.condition("context-sufficient", {
                    fn = "backend.src.bt.conditions.signals.signal_type_is",
                    args = { expected_type = "context_sufficient" }
                }),
                BT.action("noop", { fn = "backend.src.bt.actions.oracle.noop" })
            }),

            -- Default: continue with existing tool handling
            BT.action("noop", { fn = "backend.src.bt.actions.oracle.noop" })
        }),

        -- Existing tool handling...
        -- ... rest of agent-turn subtree ...
    })
})
