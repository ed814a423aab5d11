package clearseal

import (
	"strconv"
	"strings"
	"time"
)

// lastMoment is 9999-12-31T23:59:59.999Z in Unix milliseconds: RFC 3339 and X.509 write no later one.
const lastMoment = 253_402_300_799_999

// parseMoment reads a date of RFC 3339 §5.6 from 1970 to 9999, in the forms that docs/POLICY.md lists.
func parseMoment(text string) (time.Time, bool) {
	none := time.Time{}
	if len(text) < 20 {
		return none, false
	}
	for at, one := range map[int]string{4: "-", 7: "-", 10: "Tt ", 13: ":", 16: ":"} {
		if !strings.Contains(one, text[at:at+1]) {
			return none, false
		}
	}
	var parts [6]int
	for at, span := range [6][2]int{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}, {17, 19}} {
		number, ok := parseDigits(text[span[0]:span[1]])
		if !ok {
			return none, false
		}
		parts[at] = number
	}
	leap := 0
	if parts[5] == 60 {
		leap, parts[5] = 1, 59
	}
	year, month, day, hour, minute, second := parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]
	moment := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	exists := year >= 1 && moment.Year() == year && int(moment.Month()) == month && moment.Day() == day
	if !exists || hour > 23 || minute > 59 || second > 59 {
		return none, false
	}
	millis, rest, ok := parseDecimals(text[19:])
	if !ok {
		return none, false
	}
	offset, ok := parseZone(rest)
	if !ok {
		return none, false
	}
	moment = moment.Add(time.Duration(leap)*time.Second - offset)
	// §5.7: a leap second ends June or December. It is the first second of the next day, as Unix time counts.
	firstOfHalf := moment.Day() == 1 && (moment.Month() == 1 || moment.Month() == 7) && moment.Unix()%86_400 == 0
	if leap == 1 && !firstOfHalf {
		return none, false
	}
	moment = moment.Add(time.Duration(millis) * time.Millisecond)
	if at := moment.UnixMilli(); at < 0 || at > lastMoment {
		return none, false
	}
	return moment, true
}

func parseDigits(text string) (int, bool) {
	for _, letter := range []byte(text) {
		if letter < '0' || letter > '9' {
			return 0, false
		}
	}
	number, err := strconv.Atoi(text)
	return number, err == nil
}

func parseDecimals(text string) (millis int, rest string, ok bool) {
	if !strings.HasPrefix(text, ".") {
		return 0, text, true
	}
	end := strings.IndexFunc(text[1:], func(letter rune) bool { return letter < '0' || letter > '9' })
	if end < 1 {
		return 0, "", false
	}
	millis, ok = parseDigits((text[1:1+end] + "00")[:3])
	return millis, text[1+end:], ok
}

func parseZone(text string) (time.Duration, bool) {
	if text == "Z" || text == "z" {
		return 0, true
	}
	if len(text) != 6 || text[3] != ':' || (text[0] != '+' && text[0] != '-') {
		return 0, false
	}
	hours, ok := parseDigits(text[1:3])
	minutes, fits := parseDigits(text[4:6])
	if !ok || !fits || hours > 23 || minutes > 59 {
		return 0, false
	}
	offset := time.Duration(hours*60+minutes) * time.Minute
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}
