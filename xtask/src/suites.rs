//! Suites of `npm test`. Quick suites come first; later ones reuse what earlier ones built.

mod browser;
mod cloud;
mod cluster;
mod containers;
mod counts;
mod dependencies;
mod deploy;
mod emulator;
mod examples;
mod fleet;
mod go;
mod need;
mod package;
mod platforms;
mod prose;
mod readme;
mod rust;
mod statically;
mod web;

use anyhow::Result;

pub(crate) use need::Need;
pub(crate) use rust::vector_program;

/// One kind of judgement.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) judges: &'static str,
    /// Prerequisites that a machine may lack.
    pub(crate) needs: &'static [Need],
    /// Returns a reason where the suite cannot run and the code is not at fault.
    pub(crate) run: fn() -> Result<Option<String>>,
}

/// All of them, in order.
pub(crate) const SUITES: &[Suite] = &[
    suite("format", "Rust is formatted", rust::format),
    suite(
        "readme",
        "what README and docs point to and tell to run is there",
        readme::test,
    ),
    suite(
        "prose",
        "comments, messages and Markdown avoid the forms that CONTRIBUTING.md lists",
        prose::test,
    ),
    suite(
        "relay",
        "host-proxy depends on nothing that could open a seal",
        dependencies::relay,
    ),
    suite(
        "enclave",
        "enclave-server is built without cryptography in C",
        dependencies::enclave,
    ),
    suite(
        "licences",
        "licences, bans, duplicates and sources of every crate",
        dependencies::licences,
    )
    .with(&[Need::CargoDeny]),
    suite(
        "advisories",
        "no crate is vulnerable, unmaintained or yanked, but for named exceptions",
        dependencies::advisories,
    )
    .with(&[Need::CargoDeny, Need::Advisories]),
    suite(
        "clippy",
        "no lint fires, natively and for WebAssembly",
        rust::clippy,
    ),
    suite(
        "rust",
        "unit, integration and documentation tests",
        rust::test,
    )
    .with(&[Need::Vectors]),
    suite(
        "docs",
        "the documentation builds without a warning",
        rust::docs,
    ),
    suite(
        "wasm",
        "the verifier builds and stays within its size",
        web::wasm,
    ),
    suite(
        "biome",
        "TypeScript, CSS and JSON are formatted and linted",
        web::biome,
    ),
    suite("types", "TypeScript's types hold", web::types),
    suite("web", "unit tests of the npm packages, and key policies against a public simulator", web::test).with(&[Need::Vectors]),
    suite(
        "static",
        "enclave-server is one static musl binary",
        statically::enclave,
    ),
    suite(
        "counts",
        "no hot path takes more instructions than it did",
        counts::test,
    )
    .with(&[Need::Valgrind]),
    suite(
        "cloud",
        "host-proxy asks AWS KMS, and reads models from S3 and web servers",
        cloud::test,
    )
    .with(&[Need::Python]),
    suite(
        "deploy",
        "manifests, units and scripts of deploy/ are well formed",
        deploy::test,
    )
    .with(&[Need::Python]),
    suite(
        "cluster",
        "a real Kubernetes API server takes the manifests, and its controllers place, roll, drain and scale the replicas",
        cluster::test,
    )
    .with(&[Need::Cluster]),
    suite(
        "python",
        "the Python package: lints, types, and OpenAI's client sealed by it",
        package::test,
    )
    .with(&[Need::Python, Need::Vectors]),
    suite(
        "go",
        "the Go client: vetted, judged by the conformance kit, and sealing to real processes",
        go::test,
    )
    .with(&[Need::Go, Need::Vectors]),
    suite(
        "examples",
        "each printed example, with the official clients, does what is printed",
        examples::test,
    )
    .with(&[Need::Python]),
    suite(
        "fleet",
        "clients go on while replicas behind HAProxy are killed, stopped, drained, cut off and rolled",
        fleet::test,
    ),
    suite(
        "browser",
        "Chromium against the real processes",
        browser::test,
    ),
    suite(
        "speed",
        "each route scores 95 of 100 as Lighthouse scores, on a phone and on a desktop",
        browser::speed,
    ),
    suite(
        "firefox",
        "Firefox against the real processes, over WebDriver BiDi",
        browser::firefox,
    )
    .with(&[Need::Firefox]),
    suite(
        "webkit",
        "WebKitGTK, the engine of Safari, against the real processes, over WebDriver",
        browser::webkit,
    )
    .with(&[Need::WebKit]),
    suite(
        "platforms",
        "it compiles for Linux on ARM and, as far as it has no C, for macOS; NEON computes what is right",
        platforms::test,
    )
    .with(&[Need::Arm]),
    suite(
        "containers",
        "the container images build, and what they start answers",
        containers::test,
    )
    .with(&[Need::Buildah]),
    suite(
        "emulator",
        "the enclave image, booted: its module, its measurements, hostile parents, Chromium",
        emulator::test,
    )
    .with(&[Need::Emulator]),
];

const fn suite(
    name: &'static str,
    judges: &'static str,
    run: fn() -> Result<Option<String>>,
) -> Suite {
    Suite {
        name,
        judges,
        needs: &[],
        run,
    }
}

impl Suite {
    const fn with(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }
}
