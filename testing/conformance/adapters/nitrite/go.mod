module adapter

go 1.26

require github.com/hf/nitrite v0.0.0-20211104000856-f9e0dcc73703

require (
	github.com/fxamacker/cbor/v2 v2.2.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
)
