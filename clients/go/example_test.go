package clearseal_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	clearseal "clearseal.example/go"
)

func ExampleConnect() {
	text, err := os.ReadFile("trust-policy.json")
	if err != nil {
		log.Fatal(err)
	}
	policy, err := clearseal.ReadPolicy(text)
	if err != nil {
		log.Fatal(err)
	}
	session, err := clearseal.Connect(context.Background(), "https://embed.example", policy)
	if err != nil {
		log.Fatal(clearseal.CodeOf(err), err)
	}
	vectors, err := session.Embed(context.Background(), []string{"only the enclave reads this"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(vectors[0]))
}

func ExampleSession_RoundTripper() {
	session, err := clearseal.Connect(context.Background(), "http://127.0.0.1:8080", nil, clearseal.AllowSimulated())
	if err != nil {
		log.Fatal(err)
	}
	client := http.Client{Transport: session.RoundTripper()}
	response, err := client.Get(session.BaseURL() + "/models")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
}
