//! Prints the vectors of the texts, computed through a Rust client.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::embeddings::CreateEmbeddingRequestArgs;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let input: serde_json::Value = serde_json::from_str(&std::env::var("CLIENT_INPUT")?)?;
    let texts: Vec<String> = serde_json::from_value(input["texts"].clone())?;
    let address = input["address"].as_str().unwrap_or_default();
    let model = input["model"].as_str().unwrap_or_default();
    let config = OpenAIConfig::new().with_api_base(format!("{address}/v1")).with_api_key("none");
    let request = CreateEmbeddingRequestArgs::default().model(model).input(texts).build()?;
    let answer = Client::with_config(config).embeddings().create(request).await?;
    let vectors: Vec<Vec<f32>> = answer.data.into_iter().map(|item| item.embedding).collect();
    println!("{}", serde_json::to_string(&vectors)?);
    Ok(())
}
