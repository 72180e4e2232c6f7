//! `--metrics ADDRESS`: the counters of a process for Prometheus.

mod http;
mod text;

#[cfg(test)]
mod document;

#[cfg(feature = "fuzzing")]
pub(crate) use http::answered;

use anyhow::Context;
use clap::Args;
use onpath_host::node::Node;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

/// Whether and where a process tells its counters.
#[derive(Args, Clone, Debug)]
pub(crate) struct MetricsArgs {
    /// Serve counters to Prometheus at http://ADDRESS/metrics: PORT for this machine alone, or ADDRESS:PORT. Whoever reaches it can read
    /// them [default: nobody].
    #[arg(long, env = "ONPATH_METRICS", value_name = "[ADDRESS:]PORT", value_parser = address)]
    metrics: Option<SocketAddr>,
}

/// A port alone is one of the loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| "use PORT, as in 9469, or ADDRESS:PORT, as in 10.77.0.1:9469 or [::1]:9469".to_owned())
}

/// A place where counters are to be told, which is taken; or none.
pub(crate) struct Metrics(Option<TcpListener>);

impl MetricsArgs {
    /// Takes the place, so that whoever wants it hears at once if it is not free.
    pub(crate) fn bind(&self) -> anyhow::Result<Metrics> {
        let Some(address) = self.metrics else { return Ok(Metrics(None)) };
        let why = || format!("--metrics {address}: the address must be one of this host, and the port free");
        Ok(Metrics(Some(TcpListener::bind(address).with_context(why)?)))
    }
}

impl Metrics {
    /// Tells the counters of `node` from now on, as long as this process lives. `process`: what the process is.
    pub(crate) fn serve(self, node: &Arc<Node>, process: &'static str) -> anyhow::Result<()> {
        let Some(listener) = self.0 else { return Ok(()) };
        let at = listener.local_addr()?;
        let node = Arc::downgrade(node);
        http::serve(listener, move || node.upgrade().map(|node| text::of(&node, process)))?;
        tracing::info!("metrics are at http://{at}/metrics");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_machine() {
        assert_eq!(address("9469"), Ok(SocketAddr::from(([127, 0, 0, 1], 9469))));
        assert_eq!(address("10.0.0.1:1"), Ok(SocketAddr::from(([10, 0, 0, 1], 1))));
        assert!(address("localhost").is_err_and(|why| why.contains("ADDRESS:PORT")));
    }
}
