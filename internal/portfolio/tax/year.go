package tax

// LotRow returns the index of the transaction that brought the lot.
func (s *Sale) LotRow() int { return s.lotRow }

// LongTermByDate reports whether the time since the purchase alone makes the sale long-term.
func (s *Sale) LongTermByDate() bool { return longTerm(s.LotDate+1, s.Date) }
