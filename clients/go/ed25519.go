package clearseal

import (
	"crypto/ed25519"
	"encoding/hex"
	"math/big"
)

// fieldPrime is 2^255 - 19.
var fieldPrime = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))

// smallOrder holds the y coordinates of the eight points of small order, little-endian without the sign of x.
var smallOrder = func() map[[32]byte]bool {
	points := map[[32]byte]bool{}
	for _, digits := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	} {
		decoded, err := hex.DecodeString(digits)
		if err != nil {
			panic(err)
		}
		points[[32]byte(decoded)] = true
	}
	return points
}()

// isStrictPoint reports an encoding with y below the field's prime that is not of small order.
func isStrictPoint(encoded [32]byte) bool {
	encoded[31] &= 0x7f
	bigEndian := make([]byte, 32)
	for at, octet := range encoded {
		bigEndian[31-at] = octet
	}
	return new(big.Int).SetBytes(bigEndian).Cmp(fieldPrime) < 0 && !smallOrder[encoded]
}

// verifyEd25519 verifies strictly (docs/RECEIPTS.md, layer 2). crypto/ed25519 refuses S ≥ L, and compares R with the encoding of
// the one point that satisfies the cofactorless equation; it accepts points of small order and another encoding of the key.
func verifyEd25519(key [32]byte, message, signature []byte) bool {
	return len(signature) == ed25519.SignatureSize && isStrictPoint(key) && isStrictPoint([32]byte(signature[:32])) &&
		ed25519.Verify(key[:], message, signature)
}

// isOnCurve reports a key that crypto/ed25519 can decode: x² = (y² - 1) / (d y² + 1) has a root.
func isOnCurve(key [32]byte) bool {
	key[31] &= 0x7f
	bigEndian := make([]byte, 32)
	for at, octet := range key {
		bigEndian[31-at] = octet
	}
	square := new(big.Int).SetBytes(bigEndian)
	square.Mul(square, square).Mod(square, fieldPrime)
	// d = -121665/121666.
	d := new(big.Int).ModInverse(big.NewInt(121_666), fieldPrime)
	d.Mul(d, big.NewInt(-121_665)).Mod(d, fieldPrime)
	below := new(big.Int).Mul(d, square)
	below.Add(below, big.NewInt(1)).Mod(below, fieldPrime)
	below.ModInverse(below, fieldPrime)
	above := new(big.Int).Sub(square, big.NewInt(1))
	above.Mul(above, below).Mod(above, fieldPrime)
	return big.Jacobi(above, fieldPrime) >= 0
}
