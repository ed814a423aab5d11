//! Content of `deploy/`: Kubernetes manifests against Kubernetes' schemas; the configurations of HAProxy and other reverse proxies,
//! Prometheus' rules, systemd's units and shell scripts by their own programs; the metrics that rules and dashboard name against the
//! sources.

use crate::process::run;
use crate::{balancer, needs, paths, python, skipped};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Schemas of this version of Kubernetes: the oldest that still gets mends.
const KUBERNETES: &str = "1.34";
/// Greatest exposure that systemd may find in the proxy's unit, in tenths of its scale of 10.
const EXPOSURE: &str = "20";

pub(crate) fn test() -> Result<Option<String>> {
    let deploy = paths::root().join("deploy");
    metrics_exist(&deploy)?;
    proxy_options(&deploy)?;
    haproxy()?;
    nginx(&deploy)?;
    apache(&deploy)?;
    caddy(&deploy)?;
    varnish(&deploy)?;
    configuration_in_cluster(&deploy.join("kubernetes/balancer.yaml"))?;
    prometheus(&deploy.join("prometheus"))?;
    let Ok(programs) = python::environment() else {
        return Ok(Some("no Python with packages of its registry".to_owned()));
    };
    let manifests = files(&deploy.join("kubernetes"), "yaml")?;
    ensure!(!manifests.is_empty(), "deploy/kubernetes has no manifest");
    run(Command::new(programs.join("kubernetes-validate"))
        .args(["--strict", "--kubernetes-version", KUBERNETES])
        .args(manifests))?;
    run(Command::new("sh")
        .arg("-n")
        .arg(deploy.join("kubernetes/enclave/run-enclave")))?;
    if needs::output("systemd-analyze", &["--version"]).is_err() {
        skipped::note("deploy::units", "no systemd-analyze")?;
        return Ok(None);
    }
    run(Command::new("systemd-analyze")
        .args(["security", "--no-pager", "--offline=true"])
        .arg(format!("--threshold={EXPOSURE}"))
        .arg(deploy.join("ec2/clearseal-proxy.service")))?;
    Ok(None)
}

/// Whether HAProxy takes the configuration that is shipped, and what `npm start -- --replicas` makes of it.
fn haproxy() -> Result<()> {
    if needs::debian("haproxy", "haproxy").is_err() {
        return skipped::note("deploy::haproxy", "no haproxy");
    }
    let many = paths::target()?.join("clearseal-haproxy.cfg");
    let replicas = [8081, 8082, 8083].map(|port| format!("127.0.0.1:{port}"));
    balancer::configure(&many, &replicas)?;
    let cluster = paths::target()?.join("clearseal-haproxy-cluster.cfg");
    fs::write(&cluster, in_cluster()?)?;
    for file in [balancer::shipped(), many, cluster] {
        run(Command::new("haproxy")
            .args(["-c", "-q", "-f"])
            .arg(file)
            .env("CLEARSEAL_LISTEN", "127.0.0.1:8080")
            .env(
                "CLEARSEAL_ADMIN",
                std::env::temp_dir().join("clearseal-haproxy.sock"),
            )
            .env("CLEARSEAL_METRICS", "127.0.0.1:8404"))?;
    }
    Ok(())
}

/// Folder for a proxy's files, and for a configuration that includes the shipped one.
fn scratch(name: &str) -> Result<PathBuf> {
    let folder = paths::target()?.join("reverse-proxies").join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn nginx(deploy: &Path) -> Result<()> {
    if needs::debian("nginx", "nginx-light").is_err() {
        return skipped::note("deploy::nginx", "no nginx");
    }
    let (folder, shipped) = (scratch("nginx")?, deploy.join("nginx/clearseal.conf"));
    let main = folder.join("nginx.conf");
    let (pid, log) = (folder.join("nginx.pid"), folder.join("error.log"));
    let text = format!(
        "pid {};\nerror_log {};\nevents {{}}\nhttp {{ include {}; }}\n",
        pid.display(),
        log.display(),
        shipped.display()
    );
    fs::write(&main, text)?;
    run(Command::new("nginx").args(["-t", "-q", "-c"]).arg(main))
}

/// Folder of Apache's modules on Debian, and the modules that the configuration needs.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";
const APACHE_NEEDS: [&str; 4] = ["mpm_event", "authz_core", "proxy", "proxy_http"];

fn apache(deploy: &Path) -> Result<()> {
    if needs::debian("apache2", "apache2-bin").is_err() || !Path::new(APACHE_MODULES).is_dir() {
        return skipped::note("deploy::apache", "no apache2 of Debian");
    }
    let (folder, shipped) = (scratch("apache")?, deploy.join("apache/clearseal.conf"));
    let main = folder.join("apache.conf");
    let modules: String = APACHE_NEEDS
        .map(|name| format!("LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so\n"))
        .concat();
    let text = format!(
        "ServerRoot {folder}\nServerName localhost\nPidFile {folder}/pid\nErrorLog {folder}/log\n{modules}Include {}\n",
        shipped.display(),
        folder = folder.display()
    );
    fs::write(&main, text)?;
    run(Command::new("apache2").args(["-t", "-f"]).arg(main))
}

fn caddy(deploy: &Path) -> Result<()> {
    if needs::debian("caddy", "caddy").is_err() {
        return skipped::note("deploy::caddy", "no caddy");
    }
    run(Command::new("caddy")
        .args(["validate", "--adapter", "caddyfile", "--config"])
        .arg(deploy.join("caddy/Caddyfile")))
}

fn varnish(deploy: &Path) -> Result<()> {
    if needs::debian("varnishd", "varnish").is_err() {
        return skipped::note("deploy::varnish", "no varnishd");
    }
    // Prints the program that it makes of the configuration.
    let output = Command::new("varnishd")
        .arg("-C")
        .arg("-n")
        .arg(scratch("varnish")?)
        .arg("-f")
        .arg(deploy.join("varnish/clearseal.vcl"))
        .output()?;
    ensure!(
        output.status.success(),
        "varnishd refuses deploy/varnish: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Replicas of the stateful set that HAProxy knows by name; as many as the autoscaler may start.
const IN_CLUSTER: usize = 8;
/// Domain of their names. HAProxy's resolver asks for a name as it is, and appends no search domain.
const REPLICAS: &str = "clearseal-replicas.clearseal.svc.cluster.local";
/// The line before the configuration in its map, and what it is indented by there.
const IN_MAP: &str = "  haproxy.cfg: |\n";
const INDENT: &str = "    ";

/// The shipped configuration, with the pods as its replicas.
fn in_cluster() -> Result<String> {
    let replicas: Vec<_> = (0..IN_CLUSTER)
        .map(|ordinal| {
            format!("clearseal-{ordinal}.{REPLICAS}:8080 resolvers cluster init-addr none")
        })
        .collect();
    let names = "# Names of pods; one that is not there is down.\nresolvers cluster\n    parse-resolv-conf\n    hold valid 5s\n\n";
    Ok([names, &balancer::configuration(&replicas)?].concat())
}

/// The cluster's balancer runs the shipped configuration. `CLEARSEAL_UPDATE=1` writes it.
fn configuration_in_cluster(file: &Path) -> Result<()> {
    let wanted: String = in_cluster()?
        .lines()
        .map(|line| {
            if line.is_empty() {
                "\n".to_owned()
            } else {
                format!("{INDENT}{line}\n")
            }
        })
        .collect();
    let manifest = fs::read_to_string(file)?;
    let (before, rest) = manifest
        .split_once(IN_MAP)
        .context("the balancer's manifest holds no haproxy.cfg")?;
    let (found, after) = match rest.find("\n---") {
        Some(end) => rest.split_at(end + 1),
        None => (rest, ""),
    };
    if found == wanted {
        return Ok(());
    }
    ensure!(
        std::env::var_os("CLEARSEAL_UPDATE").is_some(),
        "{} holds another configuration than deploy/haproxy; CLEARSEAL_UPDATE=1 writes it",
        file.display()
    );
    Ok(fs::write(file, [before, IN_MAP, &wanted, after].concat())?)
}

fn prometheus(folder: &Path) -> Result<()> {
    if needs::debian("promtool", "prometheus").is_err() {
        return skipped::note("deploy::prometheus", "no promtool");
    }
    run(Command::new("promtool")
        .args(["check", "rules", "clearseal.rules.yml"])
        .current_dir(folder))?;
    run(Command::new("promtool")
        .args(["test", "rules", "clearseal.rules.test.yml"])
        .current_dir(folder))
}

/// Metrics of HAProxy's exporter that are named; its own program lists no names.
const OF_HAPROXY: [&str; 3] = [
    "haproxy_backend_active_servers",
    "haproxy_backend_current_queue",
    "haproxy_server_status",
];
/// Suffixes that Prometheus' client adds to the names of counters, and of gauges with a unit.
const SUFFIXES: [&str; 3] = ["_total", "_seconds", "_bytes"];

/// Every metric that rules, dashboard and manifests name is registered in the sources, and every one that is registered is shown.
fn metrics_exist(deploy: &Path) -> Result<()> {
    let dashboard = fs::read_to_string(deploy.join("grafana/clearseal.json"))?;
    let mut named = metrics(&dashboard);
    for (folder, extension) in [("prometheus", "yml"), ("kubernetes", "yaml")] {
        for file in files(&deploy.join(folder), extension)? {
            named.extend(metrics(&fs::read_to_string(file)?));
        }
    }
    let mut registered = BTreeSet::new();
    for (prefix, source) in [
        ("clearseal_proxy_", "host-proxy/src/metrics.rs"),
        ("clearseal_enclave_", "enclave-server/src/metrics.rs"),
    ] {
        let source = fs::read_to_string(paths::root().join(source))?;
        let names = source.split(".register").skip(1);
        registered
            .extend(names.filter_map(|rest| Some(format!("{prefix}{}", rest.split('"').nth(1)?))));
    }
    ensure!(registered.len() > 10, "the sources register no metrics");
    for name in &named {
        if !OF_HAPROXY.contains(&name.as_str()) && !registered.contains(without_suffix(name)) {
            bail!("deploy/ names the metric {name}, which nothing registers");
        }
    }
    let hidden = find_hidden(&registered, &dashboard);
    ensure!(
        hidden.is_none(),
        "the dashboard shows nothing of {hidden:?}"
    );
    Ok(())
}

/// A registered metric that the dashboard does not name.
fn find_hidden<'a>(registered: &'a BTreeSet<String>, dashboard: &str) -> Option<&'a String> {
    let named = metrics(dashboard);
    let shown: BTreeSet<&str> = named.iter().map(|name| without_suffix(name)).collect();
    registered
        .iter()
        .find(|name| !shown.contains(name.as_str()))
}

fn without_suffix(name: &str) -> &str {
    let base = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
    base.unwrap_or(name)
}

/// Files that start host-proxy before an enclave of AWS.
const STARTS_PROXY: [&str; 2] = ["ec2/clearseal-proxy.service", "kubernetes/clearseal.yaml"];

/// Every option that a deployment gives to host-proxy is one of its options, and each serves revocation lists.
fn proxy_options(deploy: &Path) -> Result<()> {
    let known = known_options()?;
    for file in STARTS_PROXY {
        let text = fs::read_to_string(deploy.join(file))?;
        let given = options(&text);
        if let Some(unknown) = given.iter().find(|option| !known.contains(**option)) {
            bail!("deploy/{file} names {unknown}, which is not an option of host-proxy");
        }
        ensure!(
            given.contains("--crl"),
            "deploy/{file} serves no revocation lists, which policies may require: pass --crl"
        );
    }
    Ok(())
}

/// Options in the lines that are not comments.
fn options(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| {
            line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
        })
        .filter(|word| word.starts_with("--") && !word.starts_with("---"))
        .collect()
}

/// Options of host-proxy, out of its source: `long = "name"`, or the name of the field.
fn known_options() -> Result<BTreeSet<String>> {
    let source = fs::read_to_string(paths::root().join("host-proxy/src/config.rs"))?;
    let mut options = BTreeSet::new();
    for argument in source.split("#[arg(").skip(1) {
        let field = argument.split("pub ").nth(1);
        let field = field.and_then(|rest| rest.split(':').next());
        let named = argument
            .split_once("long = \"")
            .and_then(|(_, rest)| rest.split('"').next());
        let name = named
            .or(field)
            .context("host-proxy's options cannot be read")?;
        options.insert(format!("--{}", name.replace('_', "-")));
    }
    ensure!(options.contains("--enclave"), "host-proxy has no --enclave");
    Ok(options)
}

/// Names of ours and of HAProxy's in `text`.
fn metrics(text: &str) -> Vec<String> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| {
            ["clearseal_proxy_", "clearseal_enclave_", "haproxy_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
        .map(str::to_owned)
        .collect()
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::find_hidden;

    #[test]
    fn a_metric_is_not_shown_by_one_with_a_longer_name() {
        let registered = [
            "clearseal_proxy_requests",
            "clearseal_proxy_requests_refused",
        ];
        let registered = registered.map(str::to_owned).into();
        let hidden = |dashboard| find_hidden(&registered, dashboard).map(String::as_str);
        assert_eq!(
            hidden("rate(clearseal_proxy_requests_refused_total[1m])"),
            Some("clearseal_proxy_requests")
        );
        assert_eq!(
            hidden("clearseal_proxy_requests_refused_total / clearseal_proxy_requests_total"),
            None
        );
    }
}
