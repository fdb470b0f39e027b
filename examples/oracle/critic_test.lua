test("it looks, then judges", function(t)
    local turns = 0
    t:replace("llm_call:read", function(leaf)
        turns = turns + 1
        leaf:set("_tool_calls", turns == 1 and { { name = "read_file" } } or {})
        leaf:set("accumulated_content", "Let me look.")
        return BT.SUCCESS
    end)
    t:replace("tool:call_tools", BT.SUCCESS)
    t:replace("llm_call:judge", function(leaf)
        leaf:set("accumulated_content", 'REVIEW_PASSED: T1\n<signal type="context_sufficient"><sources_found>1</sources_found></signal>')
        leaf:set("_signal_parsed_this_turn", false)
        return BT.SUCCESS
    end)
    t:equal(t:run(), BT.SUCCESS)
    t:equal(t:visits("tool:call_tools"), 1)
    t:equal(t:visits("llm_call:judge"), 1)
    t:equal(t:get("accumulated_content"), "REVIEW_PASSED: T1")
end)

test("without a reply there is no verdict", function(t)
    t:replace("llm_call:*", BT.FAILURE)
    t:replace("tool:*", BT.SUCCESS)
    t:equal(t:run(), BT.FAILURE)
end)

-- The server is down while the critic looks, and up again when it would decide.
for _, good in ipairs({ 0, 1 }) do
    test("who could not look does not judge, after " .. good, function(t)
        local turns = 0
        t:replace("llm_call:read", function(leaf)
            turns = turns + 1
            if turns > good then
                leaf:set("_model_error", { name = "dropped", text = "the connection was cut", hint = "" })
                return BT.FAILURE
            end
            leaf:set("_tool_calls", { { name = "read_file" } })
            return BT.SUCCESS
        end)
        t:replace("tool:call_tools", BT.SUCCESS)
        t:replace("llm_call:judge", function(leaf)
            leaf:set("_model_error", nil)
            leaf:set("accumulated_content", "REVIEW_PASSED: T1")
            return BT.SUCCESS
        end)
        t:equal(t:run(), BT.FAILURE)
        t:equal(t:visits("llm_call:judge"), 0)
    end)
end
