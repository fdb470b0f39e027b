-- Two searches race: the first that finds something wins, and the other is cancelled. A subtree with ports stores the result.
-- It is used twice: its ports refer to keys of the node that uses it, and its own key is reset at each use. The key learnt is
-- global, so it outlives the run (see --runs).
--
--     signalbox tree run examples/trees/research.lua --runs 2 \
--         --tool code='echo "in auth.go"' --tool notes='sleep 5; echo "in the notes"'

BT.subtree("keep", {
    description = "Keep what a tool found, in words",
    ports = { query = "string", found = "string" },
    blackboard = { words = "string" },
    root = BT.sequence({
        BT.script("word-it", function(t)
            t:set("words", t:get("query") .. " " .. tostring(t:get("_tool_result").result))
        end),
        BT.script("hand-over", function(t) t:set("found", t:get("words")) end),
    }),
})

local function look_in(place)
    return BT.sequence("look-in-" .. place, {
        BT.tool(place, { args = { query = BT.key("question") } }),
        BT.subtree("keep", { name = "keep-from-" .. place, ports = { query = "question", found = "finding" } }),
    })
end

return BT.tree("research", {
    blackboard = { question = { type = "string", default = "Where is the auth function?" }, finding = "string" },
    globals = { learnt = { type = "list", default = {} } },
    root = BT.sequence({
        BT.parallel("race", { require = "one", look_in("code"), look_in("notes") }),
        BT.script("remember", function(t)
            local learnt = t:get("learnt")
            table.insert(learnt, t:get("finding"))
            t:set("learnt", learnt)
        end),
        -- publish the finding twice, to show repeat_times
        BT.repeat_times(2, BT.script("say", function(t) t:emit("said", t:get("finding")) end)),
    }),
})
