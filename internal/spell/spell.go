// Package spell tells how much two words are alike, for hints about names that may be misspelled.
package spell

// maxWord is the length of the longest word that is compared: the cost grows with the product of both.
const maxWord = 100

// Distance counts the letters to change, add or take away from one word to another. Of a word that is too long to be
// compared it is the length.
func Distance(a, b string) int {
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
