// Command cases prints the vectors of the texts, computed through a Go client.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	var input struct {
		Address, Model string
		Texts          []string
	}
	if err := json.Unmarshal([]byte(os.Getenv("CLIENT_INPUT")), &input); err != nil {
		log.Fatal(err)
	}
	client := openai.NewClient(option.WithBaseURL(input.Address+"/v1"), option.WithAPIKey("none"))
	answer, err := client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{
		Model: input.Model,
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: input.Texts},
	})
	if err != nil {
		log.Fatal(err)
	}
	vectors := [][]float64{}
	for _, item := range answer.Data {
		vectors = append(vectors, item.Embedding)
	}
	text, err := json.Marshal(vectors)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}
