local function say(text, signal)
    return text .. "\n\n" .. signal
end

local stuck = say("I see nothing.", '<signal type="stuck"><attempted>["search"]</attempted><blocker>no index</blocker></signal>')
local more = say("Let me look.", '<signal type="need_turn"><reason>look again</reason></signal>')
local done = say("It checks the token.", '<signal type="context_sufficient"><sources_found>1</sources_found></signal>')

test("an agent that is stuck gives up", function(t)
    t:reply("llm_call:*", stuck)
    t:equal(t:run(), BT.SUCCESS)
    t:equal(t:visits("script:say-so"), 1)
    t:equal(t:visits("script:keep-answer"), 0)
    t:equal(t:get("answer"), "I could not find out. So far: I see nothing.")
end)

test("an agent that knows enough answers", function(t)
    t:reply("llm_call:*", more, done)
    t:equal(t:run(), BT.SUCCESS)
    t:equal(t:visits("script:build-request"), 2)
    t:equal(t:get("answer"), "It checks the token.")
    t:equal(#t:get("signals_emitted"), 2)
    t:equal(#t:emitted("turn_signal"), 2)
end)

test("the same reason three times is a circle", function(t)
    t:reply("llm_call:*", more)
    t:equal(t:run(), BT.SUCCESS)
    t:equal(t:visits("script:build-request"), 3)
    t:equal(t:get("consecutive_same_reason"), 3)
    t:equal(t:visits("script:say-so"), 1)
end)

test("three turns without a signal are an answer", function(t)
    t:reply("llm_call:*", "Hm.", "Well.", "It checks the token.")
    t:equal(t:run(), BT.SUCCESS)
    t:equal(t:get("turns_without_signal"), 3)
    t:equal(t:get("answer"), "It checks the token.")
end)

test("it does not ask for ever", function(t)
    local n = 0
    t:replace("action:parse-signal", function(leaf)
        n = n + 1
        leaf:set("last_signal", { type = "need_turn", confidence = 0.5, fields = { reason = "reason " .. n } })
    end)
    t:reply("llm_call:*", "Hm.")
    t:equal(t:run(), BT.FAILURE)
    t:equal(t:visits("script:build-request"), 10)
end)

test("a model that fails ends it", function(t)
    t:replace("llm_call:*", BT.FAILURE)
    t:equal(t:run(), BT.FAILURE)
end)
