//! Table of the paths that the proxy answers, in each dialect.

use http::Method;

use super::dialect::{self, Dialect, Form, rerank};

/// One path, and its answer.
pub(super) struct Route {
    methods: Methods,
    path: Path,
    pub(super) dialect: Dialect,
    pub(super) action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Methods {
    /// HEAD is answered as GET is (RFC 9110 §9.3.2): hyper sends no content.
    Get,
    Post,
    Any,
}

enum Path {
    Exactly(&'static str),
    /// Every path that begins so. The rest goes to the enclave.
    Below(&'static str),
    /// A model's name between these.
    Around(&'static str, &'static str),
}

/// The proxy's task at a path.
#[derive(Clone, Copy)]
pub(super) enum Action {
    StatusPage,
    Health,
    /// Answers that the proxy is ready, or an error.
    Ready,
    /// Seals the request as it is, with `/v1/` before the rest of its path.
    Forward,
    /// Seals OpenAI's request, with the model that the path names.
    ForwardTo,
    /// Translates a request for embeddings, and its answer.
    Embed(&'static Form),
    /// Translates a request for scores, and its answer.
    Rerank(rerank::Form),
    /// Writes the list of models.
    OllamaModels,
    OllamaVersion,
    TeiInfo,
}

impl Action {
    /// Whether the path needs no key where only this machine reaches the proxy.
    pub(super) fn is_status(self) -> bool {
        matches!(
            self,
            Self::StatusPage | Self::Health | Self::Ready | Self::OllamaVersion
        )
    }
}

const fn route(methods: Methods, path: Path, dialect: Dialect, action: Action) -> Route {
    Route {
        methods,
        path,
        dialect,
        action,
    }
}

#[rustfmt::skip]
const ROUTES: &[Route] = {
    use Action::*;
    use Dialect::*;
    use Methods::*;
    use Path::*;
    &[
        route(Get, Exactly("/"), OpenAi, StatusPage),
        route(Get, Exactly("/healthz"), OpenAi, Health),
        // https://docs.cohere.com/v1/reference/embed: before the enclave's own paths.
        route(Post, Exactly("/v1/embed"), Cohere, Embed(&dialect::COHERE_EMBED_V1)),
        route(Any, Below("/v1/"), OpenAi, Forward),
        // https://learn.microsoft.com/azure/ai-services/openai/reference#embeddings
        route(Post, Around("/openai/deployments/", "/embeddings"), Azure, ForwardTo),
        route(Any, Below("/openai/v1/"), Azure, Forward),
        // https://docs.ollama.com/api
        route(Post, Exactly("/api/embed"), Ollama, Embed(&dialect::OLLAMA_EMBED)),
        route(Post, Exactly("/api/embeddings"), Ollama, Embed(&dialect::OLLAMA_EMBEDDINGS)),
        route(Get, Exactly("/api/tags"), Ollama, OllamaModels),
        route(Get, Exactly("/api/version"), Ollama, OllamaVersion),
        // https://huggingface.github.io/text-embeddings-inference: `/` takes the same as `/embed`.
        route(Post, Exactly("/embed"), Tei, Embed(&dialect::TEI_EMBED)),
        route(Post, Exactly("/"), Tei, Embed(&dialect::TEI_EMBED)),
        route(Post, Exactly("/rerank"), Tei, Rerank(rerank::Form::Tei)),
        route(Get, Exactly("/info"), Tei, TeiInfo),
        route(Get, Exactly("/health"), Tei, Ready),
        // https://docs.cohere.com/v2/reference/embed
        route(Post, Exactly("/v2/embed"), Cohere, Embed(&dialect::COHERE_EMBED)),
        // https://docs.cohere.com/v2/reference/rerank
        route(Post, Exactly("/v2/rerank"), Cohere, Rerank(rerank::Form::Cohere)),
    ]
};

/// The route of a request.
pub(super) enum Found<'a> {
    /// `rest` is the part of the path that the table does not fix.
    Route {
        route: &'static Route,
        rest: &'a str,
    },
    /// The path takes these methods only.
    OtherMethods(Dialect, String),
    Nothing(Dialect),
}

impl Found<'_> {
    /// The form of errors at the path.
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Route { route, .. } => route.dialect,
            Self::OtherMethods(dialect, _) | Self::Nothing(dialect) => *dialect,
        }
    }
}

/// Looks up a path without a slash at its end.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Found<'a> {
    let here = || {
        ROUTES
            .iter()
            .filter_map(|route| Some((route, route.path.rest(path)?)))
    };
    if let Some((route, rest)) = here().find(|(route, _)| route.methods.take(method)) {
        return Found::Route { route, rest };
    }
    let taken: Vec<_> = [Method::GET, Method::HEAD, Method::POST]
        .into_iter()
        .filter(|method| here().any(|(route, _)| route.methods.take(method)))
        .collect();
    match here().next() {
        Some((route, _)) => {
            let names: Vec<_> = taken.iter().map(Method::as_str).collect();
            Found::OtherMethods(route.dialect, names.join(", "))
        }
        None => Found::Nothing(Dialect::of_unknown_path(path)),
    }
}

impl Methods {
    fn take(self, method: &Method) -> bool {
        match *method {
            Method::GET | Method::HEAD => self != Self::Post,
            Method::POST => self != Self::Get,
            _ => false,
        }
    }
}

impl Path {
    fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        match self {
            Self::Exactly(name) => (path == *name).then_some(""),
            Self::Below(start) => path.strip_prefix(start),
            Self::Around(start, end) => {
                let rest = path.strip_prefix(start)?.strip_suffix(end)?;
                (!rest.is_empty()).then_some(rest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_the_dialect_the_rest_and_the_methods_of_a_path() {
        for (method, path, dialect, rest) in [
            (Method::GET, "/", Dialect::OpenAi, ""),
            (Method::POST, "/", Dialect::Tei, ""),
            (Method::HEAD, "/healthz", Dialect::OpenAi, ""),
            (Method::GET, "/v1/models/a/b", Dialect::OpenAi, "models/a/b"),
            (
                Method::POST,
                "/openai/v1/embeddings",
                Dialect::Azure,
                "embeddings",
            ),
            (
                Method::POST,
                "/openai/deployments/a/b/embeddings",
                Dialect::Azure,
                "a/b",
            ),
            (Method::POST, "/api/embed", Dialect::Ollama, ""),
            (Method::POST, "/v2/embed", Dialect::Cohere, ""),
            (Method::POST, "/v1/embed", Dialect::Cohere, ""),
            (
                Method::POST,
                "/v1/embeddings",
                Dialect::OpenAi,
                "embeddings",
            ),
            (Method::POST, "/rerank", Dialect::Tei, ""),
            (Method::POST, "/v2/rerank", Dialect::Cohere, ""),
            (Method::POST, "/v1/rerank", Dialect::OpenAi, "rerank"),
        ] {
            let Found::Route { route, rest: found } = find(&method, path) else {
                panic!("{method} {path}");
            };
            assert_eq!((route.dialect, found), (dialect, rest), "{path}");
        }
        for (method, path, dialect, methods) in [
            (Method::DELETE, "/", Dialect::OpenAi, "GET, HEAD, POST"),
            (
                Method::DELETE,
                "/v1/models",
                Dialect::OpenAi,
                "GET, HEAD, POST",
            ),
            (Method::POST, "/healthz", Dialect::OpenAi, "GET, HEAD"),
            (Method::GET, "/embed", Dialect::Tei, "POST"),
            (
                Method::GET,
                "/openai/deployments/a/embeddings",
                Dialect::Azure,
                "POST",
            ),
        ] {
            match find(&method, path) {
                Found::OtherMethods(found, taken) => {
                    assert_eq!((found, &*taken), (dialect, methods), "{path}");
                }
                _ => panic!("{path}"),
            }
        }
        for (path, dialect) in [
            ("/embeddings", Dialect::OpenAi),
            ("/openai/deployments//embeddings", Dialect::Azure),
            ("/openai/deployments/a/chat/completions", Dialect::Azure),
            ("/api/generate", Dialect::Ollama),
            ("/v2/chat", Dialect::Cohere),
        ] {
            match find(&Method::POST, path) {
                Found::Nothing(found) => assert_eq!(found, dialect, "{path}"),
                _ => panic!("{path}"),
            }
        }
    }
}
