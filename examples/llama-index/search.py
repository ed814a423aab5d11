"""LlamaIndex's OpenAI embeddings through `clearseal proxy`, in its vector index in memory."""

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.embeddings.openai import OpenAIEmbedding

embeddings = OpenAIEmbedding(
    # `model` accepts only OpenAI's own names.
    model_name="all-MiniLM-L6-v2",
    api_base="http://127.0.0.1:8788/v1",
    api_key="none",
)
texts = ["The cat sleeps on the sofa.", "Interest rates rose again.", "The recipe needs two eggs."]
index = VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=embeddings)
for found in index.as_retriever(similarity_top_k=1).retrieve("What did the central bank decide?"):
    print(f"{found.score:.2f}  {found.text}")
