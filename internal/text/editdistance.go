package text

// maxWord bounds the words that EditDistance compares, because its cost grows with the product of their lengths.
const maxWord = 100

// EditDistance returns the number of single-byte insertions, deletions and substitutions that turn a into b. If a or b
// is longer than 100 bytes, it returns the length of the longer one.
func EditDistance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
