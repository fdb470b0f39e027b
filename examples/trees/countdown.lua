-- The smallest tree that takes time. Kill it at any moment, run the same command again, and it continues.
--
--     signalbox tree run examples/trees/countdown.lua --journal countdown.journal

return BT.tree("countdown", {
    blackboard = { left = { type = "int", default = 5 } },
    root = BT.sequence({
        BT.repeat_until("failure", BT.sequence("second", {
            BT.condition("is-anything-left", { fn = function(t) return t:get("left") > 0 end }),
            BT.wait(1),
            BT.script("count", function(t) t:set("left", t:get("left") - 1) end),
        })),
        BT.script("lift-off", function(t) t:emit("said", "lift-off") end),
    }),
})
