def _build_exit_signals_snapshot(result: dict) -> dict:
    """Compact decision-oriented snapshot from exit signals result dict."""
    import math

    def _safe_float(val, default=0.0):
        if val is None:
            return default
        try:
            f = float(val)
            if f != f or math.isinf(f):
                return default
            return f
        except (TypeError, ValueError):
            return default

    status = result.get("status", "error")
    ticker = result.get("ticker", "unknown")
    overall = result.get("overall_assessment", "UNKNOWN")

    # Error case
    if status != "success":
        return {
            "ticker": ticker,
            "status": status,
            "verdict": f"Exit signal check failed for {ticker}: {result.get('error', 'unknown error')}",
            "overall_assessment": overall,
            "signal_count": 0,
            "signals": [],
            "trade_eligible": False,
            "recommended_actions": [],
        }

    signals = result.get("signals", [])
    signal_summaries = []
    for s in signals[:5]:
        signal_summaries.append({
            "rule_name": s.get("rule_name", "unknown"),
            "triggered": s.get("triggered", False),
            "severity": _safe_float(s.get("severity")),
            "is_primary": s.get("is_primary", False),
            "status": s.get("status", "ok"),
        })

    trade_eligible = result.get("trade_eligible", False)
    actions = result.get("recommended_actions", [])
    action_summaries = []
    for a in actions[:3]:
        action_summaries.append({
            "action": a.get("action", "unknown"),
            "ticker": a.get("ticker", ticker),
            "quantity": a.get("quantity", 0),
            "order_type": a.get("order_type", "unknown"),
        })

    # Position summary
    position = result.get("position", {})
    shares = position.get("shares", 0)

    # Sizing summary
    sizing = result.get("sizing")
    sell_quantity = sizing.get("sell_quantity", 0) if sizing else 0

    # Verdict
    if trade_eligible and actions:
        verdict = f"{ticker}: {overall} — sell {sell_quantity} of {shares} shares"
    else:
        verdict = f"{ticker}: {overall}"

    return {
        "ticker": ticker,
        "status": status,
        "verdict": verdict,
        "overall_assessment": overall,
        "signal_count": len(signals),
        "signals": signal_summaries,
        "trade_eligible": trade_eligible,
        "recommended_actions": action_summaries,
        "shares": shares,
        "sell_quantity": sell_quantity,
    }


def _build_exit_signals_agent_response(result, file_path=None):
    """Compose decision-oriented exit signal result for agent use."""
    from core.exit_signal_flags import generate_exit_signal_flags

    snapshot = _build_exit_signals_snapshot(result)
    flags = generate_exit_signal_flags(snapshot)

    response_status = "success" if result.get("status") == "success" else "error"

    return {
        "status": response_status,
        "format": "agent",
        "snapshot": snapshot,
        "flags": flags,
        "file_path": file_path,
    }
