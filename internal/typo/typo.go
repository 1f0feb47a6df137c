// Package typo guesses which known word somebody meant to type.
package typo

// DidYouMean returns the end of an error about an unknown word: `; did you mean "status"?`. It is empty if
// no known word is near.
func DidYouMean(word string, known []string) string {
	nearest, least := "", len(word)/3+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			nearest, least = k, d
		}
	}
	if nearest == "" {
		return ""
	}
	return `; did you mean "` + nearest + `"?`
}

// distance is the number of letters to insert, to remove or to exchange (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			exchanged := diagonal
			if a[i] != b[j] {
				exchanged++
			}
			diagonal = row[j+1]
			row[j+1] = min(exchanged, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
