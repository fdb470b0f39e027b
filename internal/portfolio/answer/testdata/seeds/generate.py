"""Prints random results of both tools, one per line, with the answers that the seeds' Python gives.

    python3 generate.py COUNT > answers.jsonl

The files in core and mcp_tools are the seeds' Python, unchanged, without what saves files. The
results stay away from numbers that decimals and binary numbers round differently: half a cent, and
what becomes half a dollar when it is rounded to cents.
"""

import json
import random
import sys

from mcp_tools.signals import _build_exit_signals_agent_response
from mcp_tools.tax_harvest import _build_tax_harvest_agent_response


def main(count):
    rng = random.Random(1)
    for _ in range(count):
        for tool, result, answer in (
            ("check_exit_signals", exit_result(rng), _build_exit_signals_agent_response),
            ("suggest_tax_loss_harvest", harvest_result(rng), _build_tax_harvest_agent_response),
        ):
            line = {"tool": tool, "result": result, "answer": answer(result)}
            print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


def some(rng, fields):
    """The fields, sometimes without one of them."""
    if rng.random() < 0.1:
        del fields[rng.choice(list(fields))]
    return fields


def status(rng):
    return rng.choice(["success"] * 9 + ["error", "partial"])


def exit_result(rng):
    return some(rng, {
        "status": status(rng),
        "ticker": rng.choice(["SLV", "BRK.B", "BTC-USD"]),
        "error": "no price of SLV",
        "overall_assessment": rng.choice([
            "HOLD - no rule triggered", "MONITOR - only a secondary rule", "EXIT - momentum",
            "STRONG EXIT - all rules", "ERROR - the primary rule failed", "EXITING", "UNDECIDED"]),
        "signals": [signal(rng, i) for i in range(rng.randrange(8))],
        "trade_eligible": rng.random() < 0.6,
        "recommended_actions": [action(rng) for _ in range(rng.randrange(6))],
        "position": some(rng, {"shares": quantity(rng)}),
        "sizing": rng.choice([None, {}, {"sell_quantity": quantity(rng)}]),
    })


def signal(rng, number):
    return some(rng, {
        "rule_name": rng.choice(["momentum_exit", "regime_check", "breadth"]),
        "triggered": rng.random() < 0.5,
        # Ours have four decimals.
        "severity": rng.choice([None, 0, 1, rng.randrange(10_000) / 10_000]),
        "is_primary": rng.random() < 0.5,
        # The seeds do not see an error after the fifth signal; ours do.
        "status": rng.choice(["ok", "ok", "error"]) if number < 5 else "ok",
    })


def action(rng):
    return some(rng, {
        "action": rng.choice(["SELL", "PLACE_STOP"]), "ticker": "GLD",
        "quantity": quantity(rng), "order_type": rng.choice(["market", "stop"])})


def quantity(rng):
    return rng.randrange(2_000) + rng.choice([0, 0, 0.5, 0.125])


def harvest_result(rng):
    candidates = [candidate(rng) for _ in range(rng.choice([0, 1, 3, 12]))]
    total, short = losses(rng)
    return some(rng, {
        "status": status(rng),
        "error": "no price of SLV",
        "total_harvestable_loss": total,
        "short_term_loss": short,
        "long_term_loss": money(rng),
        "candidate_count": len(candidates),
        "candidates": candidates,
        "data_coverage_pct": rng.choice(
            [None, 0, 49.94, 49.96, 50, 74.94, 74.96, 75, 100, rng.uniform(0, 100)]),
        "wash_sale_warnings": [{"ticker": f"W{i}"} for i in range(rng.choice([0, 0, 1, 3, 7]))],
        "metadata": some(rng, {
            "positions_analyzed": rng.randrange(30), "positions_with_lots": rng.randrange(30)}),
    })


def losses(rng):
    """A total and its short-term part, often at a threshold."""
    half = rng.randrange(400_000)
    return rng.choice([
        (money(rng), money(rng)), (money(rng), 0), (0, 0), (None, "NaN"),
        (-3000, -1500), (-2999.99, -3000), (3000.01, 1), (-half / 50, -half / 100)])


def money(rng):
    """A loss or a gain, sometimes with more than cents."""
    cents = rng.choice([c for c in range(100) if c not in (49, 50)])
    more = rng.choice(["", f"{rng.randrange(50):02}", f"{rng.randrange(51, 100)}"])
    return rng.choice([-1, -1, -1, 1]) * float(f"{rng.randrange(9_999)}.{cents:02}{more}")


def candidate(rng):
    return some(rng, {
        "ticker": rng.choice(["SLV", " SLV ", "TLT", "BND", "GLD", "QQQ", "IWM", "", None]),
        "unrealized_loss": rng.choice([None, "NaN"] + 6 * [-rng.randrange(1_000_000) / 100]),
        "holding_period": rng.choice(["short_term", "long_term"]),
        "wash_sale_risk": rng.random() < 0.3,
    })


if __name__ == "__main__":
    main(int(sys.argv[1]))
