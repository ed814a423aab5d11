"""LangChain's OpenAI embeddings through `clearseal proxy`, in LangChain's vector store in memory."""

from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings

embeddings = OpenAIEmbeddings(
    model="all-MiniLM-L6-v2",
    base_url="http://127.0.0.1:8788/v1",
    api_key="none",
    # Otherwise LangChain sends token ids of OpenAI's tokenizer, which the enclave refuses: TOKENIZER_UNNAMED.
    check_embedding_ctx_length=False,
)
store = InMemoryVectorStore.from_texts(
    ["The cat sleeps on the sofa.", "Interest rates rose again.", "The recipe needs two eggs."],
    embedding=embeddings,
)
for document, score in store.similarity_search_with_score("What did the central bank decide?", k=1):
    print(f"{score:.2f}  {document.page_content}")
