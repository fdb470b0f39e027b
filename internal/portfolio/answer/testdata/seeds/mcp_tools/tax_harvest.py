def _build_tax_harvest_snapshot(result: dict) -> dict:
    """Compact decision-oriented snapshot from tax harvest result dict."""
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

    if status != "success":
        return {
            "status": status,
            "verdict": f"Tax harvest analysis failed: {result.get('error', 'unknown error')}",
            "total_harvestable_loss": 0,
            "short_term_loss": 0,
            "long_term_loss": 0,
            "candidate_count": 0,
            "top_candidates": [],
            "wash_sale_ticker_count": 0,
            "wash_sale_tickers": [],
            "data_coverage_pct": 0,
            "positions_analyzed": 0,
            "positions_with_lots": 0,
        }

    total_loss = _safe_float(result.get("total_harvestable_loss"))
    st_loss = _safe_float(result.get("short_term_loss"))
    lt_loss = _safe_float(result.get("long_term_loss"))
    candidate_count = result.get("candidate_count", 0)
    coverage = _safe_float(result.get("data_coverage_pct"))
    metadata = result.get("metadata", {})
    positions_analyzed = metadata.get("positions_analyzed", 0)
    positions_with_lots = metadata.get("positions_with_lots", 0)

    wash_warnings = result.get("wash_sale_warnings", [])
    wash_tickers = [w.get("ticker", "") for w in wash_warnings]

    # Verdict
    if candidate_count == 0:
        verdict = f"No tax-loss harvesting candidates found ({positions_analyzed} positions analyzed)"
    else:
        abs_loss = abs(total_loss)
        lt_pct = (abs(lt_loss) / abs_loss * 100) if abs_loss > 0 else 0
        verdict = (
            f"${abs_loss:,.0f} harvestable losses across {candidate_count} lots "
            f"({lt_pct:.0f}% long-term), "
            f"{coverage:.0f}% data coverage"
        )
        if wash_tickers:
            verdict += f", wash sale risk on {len(wash_tickers)} ticker{'s' if len(wash_tickers) != 1 else ''}"

    # Top candidates: consolidate by ticker (sum losses, take max lot info)
    candidates = result.get("candidates", [])
    ticker_agg: dict = {}
    for c in candidates:
        ticker = str(c.get("ticker") or "").strip() or "unknown"
        if ticker not in ticker_agg:
            ticker_agg[ticker] = {
                "ticker": ticker,
                "total_loss": 0.0,
                "lot_count": 0,
                "largest_lot_loss": 0.0,
                "wash_sale_risk": False,
                "holding_periods": set(),
            }
        agg = ticker_agg[ticker]
        lot_loss = _safe_float(c.get("unrealized_loss"))
        agg["total_loss"] += lot_loss
        agg["lot_count"] += 1
        if abs(lot_loss) > abs(agg["largest_lot_loss"]):
            agg["largest_lot_loss"] = lot_loss
        if c.get("wash_sale_risk"):
            agg["wash_sale_risk"] = True
        hp = c.get("holding_period", "unknown")
        agg["holding_periods"].add(hp)

    top_candidates = []
    for agg in sorted(ticker_agg.values(), key=lambda a: abs(a["total_loss"]), reverse=True)[:5]:
        periods = sorted(agg["holding_periods"])
        top_candidates.append({
            "ticker": agg["ticker"],
            "total_loss": round(agg["total_loss"], 2),
            "lot_count": agg["lot_count"],
            "holding_periods": periods,
            "wash_sale_risk": agg["wash_sale_risk"],
        })

    return {
        "status": status,
        "verdict": verdict,
        "total_harvestable_loss": round(total_loss, 2),
        "short_term_loss": round(st_loss, 2),
        "long_term_loss": round(lt_loss, 2),
        "candidate_count": candidate_count,
        "top_candidates": top_candidates,
        "wash_sale_ticker_count": len(wash_tickers),
        "wash_sale_tickers": wash_tickers[:5],
        "data_coverage_pct": round(coverage, 1),
        "positions_analyzed": positions_analyzed,
        "positions_with_lots": positions_with_lots,
    }


def _build_tax_harvest_agent_response(result, file_path=None):
    """Compose decision-oriented tax harvest result for agent use."""
    from core.tax_harvest_flags import generate_tax_harvest_flags

    snapshot = _build_tax_harvest_snapshot(result)
    flags = generate_tax_harvest_flags(snapshot)

    response_status = "success" if result.get("status") == "success" else "error"

    return {
        "status": response_status,
        "format": "agent",
        "snapshot": snapshot,
        "flags": flags,
        "file_path": file_path,
    }
