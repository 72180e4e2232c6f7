//! Prometheus itself, from Debian's package: its linter, its rules, its scrapes, and what the dashboard asks of it.

use super::{place_of, scrape};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Process, Site};
use crate::common::{skipped, tool, wait_until};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program of Prometheus; says so where it is not installed.
fn installed(test: &str, name: &str) -> Option<PathBuf> {
    let found = tool(name);
    if found.is_none() {
        skipped(test, &format!("no {name}: scripts/setup --tests gets it from Debian's package prometheus"));
    }
    found
}

fn packaged(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The linter says nothing of what a scrape tells.
#[test]
fn the_linter_says_nothing() {
    let test = "metrics::the_linter_says_nothing";
    let Some(promtool) = installed(test, "promtool") else { return };
    let Some(site) = Site::new(test) else { return };
    let mount = site.dev(&["--metrics", "0", "--tracking", "network"]);
    std::fs::write(mount.path().join("f"), "x").expect("a file");
    let text = scrape(place_of(&mount));
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool runs");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    mount.stop();
}

/// Each alert is given what it is for, for long enough and not, and what it is not for.
#[test]
fn alerts_fire_when_they_should() {
    let Some(promtool) = installed("metrics::alerts_fire_when_they_should", "promtool") else { return };
    for (what, file) in [("check", "prometheus/onpath.yml"), ("test", "prometheus/onpath.test.yml")] {
        let output = Command::new(&promtool).args([what, "rules"]).arg(packaged(file)).output().expect("promtool runs");
        assert!(output.status.success(), "{}", said(&output));
    }
}

/// What the alert of that name asks.
pub(crate) fn alert(name: &str) -> String {
    let text = std::fs::read_to_string(packaged("prometheus/onpath.yml")).expect("the rules");
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != format!("- alert: {name}"));
    let expression = lines.find_map(|line| line.strip_prefix("expr: "));
    expression.unwrap_or_else(|| panic!("no alert {name}")).to_owned()
}

/// What the panels of the dashboard ask.
fn expressions() -> Vec<String> {
    let text = std::fs::read_to_string(packaged("grafana/onpath.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    // Grafana puts in what was chosen, and a time in which there are some scrapes.
    let filled = |expression: &str| expression.replace("$job", ".*").replace("$__rate_interval", "10s");
    targets.map(|target| filled(target["expr"].as_str().expect("an expression"))).collect()
}

/// A running Prometheus that scrapes once a second, and how it is asked.
pub(crate) struct Prometheus<'a> {
    pub(crate) process: Process,
    url: String,
    command: &'a dyn Fn(&str) -> Command,
    promtool: String,
}

impl<'a> Prometheus<'a> {
    /// `command` runs a program where `listen` is; none where Prometheus is not installed.
    pub(crate) fn start(
        test: &str,
        root: &Path,
        listen: &str,
        targets: &[String],
        command: &'a dyn Fn(&str) -> Command,
    ) -> Option<Prometheus<'a>> {
        let (prometheus, promtool) = (installed(test, "prometheus")?, installed(test, "promtool")?);
        let targets = targets.iter().map(|target| format!("'{target}'")).collect::<Vec<_>>().join(", ");
        let config = root.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n\
             - job_name: onpath\n  static_configs: [{{targets: [{targets}]}}]\n",
            packaged("prometheus/onpath.yml").canonicalize().expect("the rules").display()
        );
        std::fs::write(&config, text).expect("the configuration of Prometheus");
        let mut run = command(&prometheus.display().to_string());
        run.arg(format!("--config.file={}", config.display()));
        run.arg(format!("--storage.tsdb.path={}", root.join("prometheus").display()));
        run.arg(format!("--web.listen-address={listen}"));
        let process = Process::start(run, root.join("log-prometheus"), "ready to receive web requests");
        let url = format!("http://{listen}");
        Some(Prometheus { process, url, command, promtool: promtool.display().to_string() })
    }

    /// What it answers to an expression: a line for each series, `NAME => VALUE @[TIME]`.
    pub(crate) fn ask(&self, expression: &str) -> Vec<String> {
        let mut command = (self.command)(&self.promtool);
        let output = command.args(["query", "instant", &self.url, expression]).output().expect("promtool runs");
        assert!(output.status.success(), "{expression}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The value of the first series of the answer.
    pub(crate) fn number(&self, expression: &str) -> Option<f64> {
        let answer = self.ask(expression);
        answer.first()?.split(" => ").nth(1)?.split(' ').next()?.parse().ok()
    }

    pub(crate) fn tells(&self, expression: &str, wanted: f64) {
        wait_until(&format!("{expression} is {wanted}"), || self.number(expression) == Some(wanted));
    }
}

/// So many files and a directory, and as many that are refused as there are files.
fn load(dir: &Path, files: usize) {
    std::fs::create_dir(dir).expect("mkdir");
    for number in 0..files {
        std::fs::write(dir.join(format!("f{number}")), "x").expect("a file");
        assert!(std::fs::create_dir(dir.join(format!("f{number}/d"))).is_err(), "no directory below a file");
    }
}

#[test]
fn a_dev_is_scraped() {
    let test = "metrics::a_dev_is_scraped";
    let Some(site) = Site::new(test) else { return };
    let mount = site.dev(&["--metrics", "0", "--tracking", "network"]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let command = |program: &str| Command::new(program);
    let target = place_of(&mount).to_string();
    let root = site.root().to_owned();
    let Some(prometheus) = Prometheus::start(test, &root, &free.to_string(), &[target], &command) else { return };
    load(&mount.path().join("d"), 30);
    prometheus.tells(r#"onpath_operations_total{role="mount",operation="create",result="ok"}"#, 30.0);
    prometheus.tells(r#"onpath_operations_total{role="mount",operation="mkdir",result="ok"}"#, 1.0);
    prometheus.tells(r#"onpath_operation_duration_seconds_count{operation="create"}"#, 30.0);
    for expression in expressions()
        .iter()
        .filter(|expression| !["onpath_udp_", "onpath_transport_"].iter().any(|network| expression.contains(network)))
    {
        wait_until(&format!("{expression} is answered"), || !prometheus.ask(expression).is_empty());
    }
    assert!(prometheus.ask(r#"ALERTS{alertstate="firing"}"#).is_empty());
    prometheus.process.stop();
    mount.stop();
}

#[test]
fn a_cluster_is_scraped() {
    let test = "metrics::a_cluster_is_scraped";
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { servers: 2, switches: 1, clients: 1, init: &["--tracking", "network"], ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let hosts = cluster.hosts();
    let targets: Vec<String> = (0..hosts).map(|host| format!("{}:9469", cluster.net.address(host))).collect();
    for host in 0..hosts {
        cluster.stop_host(host);
    }
    for (host, target) in targets.iter().enumerate() {
        cluster.serve_with(host, &["--metrics", target]);
    }
    let mount = cluster.mount(&site, 0, &[]);
    let listen = format!("{}:9090", cluster.net.address(hosts));
    {
        let command = |program: &str| cluster.net.command(hosts, program);
        let root = site.root().to_owned();
        let Some(prometheus) = Prometheus::start(test, &root, &listen, &targets, &command) else { return };
        load(&mount.path().join("d"), 40);
        prometheus.tells(r#"sum(onpath_operations_total{role="told",operation="create",result="ok"})"#, 40.0);
        prometheus.tells(r#"sum(onpath_operations_total{role="told",operation="mkdir",result="ok"})"#, 1.0);
        prometheus.tells("sum(onpath_shard_sessions)", 1.0);
        prometheus.tells("count(up == 1)", hosts as f64);
        for expression in expressions() {
            wait_until(&format!("{expression} is answered"), || !prometheus.ask(&expression).is_empty());
        }
        prometheus.process.stop();
    }
    mount.stop();
    cluster.stop();
}
