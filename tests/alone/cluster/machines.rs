//! The machines of a run, and what is done to them.

use super::database::Database;
use super::faults::Fault;
use super::network::{Network, Side};
use super::node::Node;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CALLERS: u8 = 1;
const PROVIDER: u8 = 2;

/// Fields are dropped in this order: folders go after the processes of the network.
pub struct Machines {
    pub nodes: Vec<Node>,
    pub network: Network,
    pub database: Database,
    pub provider: SocketAddr,
}

impl Machines {
    pub async fn start(nodes: u8) -> Option<Self> {
        let mut network = Network::new()?;
        network.add("callers", CALLERS, &[Side::Front]);
        network.add("provider", PROVIDER, &[Side::Front]);
        let database = Database::start(&mut network).await?;
        let provider = format!("{}:9090", Side::Front.address(PROVIDER));
        let node = |number| Node::new(&mut network, number, &format!("http://{provider}"));
        let mut nodes: Vec<Node> = (1..=nodes).map(node).collect();
        nodes[0].run(&network, &["ledger", "migrate"]);
        database.note_unreturned();
        for node in &mut nodes {
            node.start(&network).await;
        }
        println!("{} gateways", nodes.len());
        Some(Self {
            nodes,
            database,
            provider: provider.parse().unwrap(),
            network,
        })
    }

    /// A fault from its beginning to its end.
    pub async fn inject(
        &mut self,
        fault: Fault,
        node: usize,
        span: Duration,
        random: &mut fastrand::Rng,
    ) {
        let network = &self.network;
        let name = self.nodes[node].name.clone();
        match fault {
            Fault::Partition | Fault::LongPartition => {
                network.cut(&name, Side::Back);
                tokio::time::sleep(span).await;
                network.join(&name, Side::Back);
            }
            Fault::Flaky => flaky(network, &name, span, random).await,
            Fault::FlakyDatabase => flaky(network, self.database.primary(), span, random).await,
            Fault::KillNode | Fault::KillNodeForLong => {
                self.nodes[node].kill();
                tokio::time::sleep(span).await;
                self.nodes[node].start(network).await;
            }
            Fault::KillDatabase => {
                self.database.kill(network);
                tokio::time::sleep(span).await;
                self.database.restart(network).await;
            }
            Fault::Stop | Fault::LongStop => {
                self.nodes[node].signal("STOP");
                tokio::time::sleep(span).await;
                self.nodes[node].signal("CONT");
            }
            Fault::Promote => self.promote(span, random.bool()).await,
        }
    }

    /// The primary is gone: with its machine, so that nothing answers at its address, or only its processes.
    async fn promote(&mut self, span: Duration, with_machine: bool) {
        let gone = self.database.primary();
        if with_machine {
            self.network.cut(gone, Side::Back);
        }
        self.database.kill(&self.network);
        self.database.promote(&self.network);
        tokio::time::sleep(span).await;
        if with_machine {
            self.network.join(gone, Side::Back);
        }
        self.database.follow(&self.network).await;
    }

    /// Starts gateways again that have ended because they were fenced. How many had.
    pub async fn revive(&mut self) -> usize {
        let mut count = 0;
        for node in &mut self.nodes {
            count += usize::from(node.revive(&self.network).await);
        }
        count
    }

    /// The ledger adds up.
    pub fn verify(&self) {
        let found = self.nodes[0].run(&self.network, &["ledger", "verify", "--json"]);
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["faults"], json!([]), "{found}");
    }
}

/// Packets are late and lost: by the kernel, or, if it has no such thing, as the link comes and goes.
async fn flaky(network: &Network, space: &str, span: Duration, random: &mut fastrand::Rng) {
    let end = Instant::now() + span;
    let (delay_ms, loss) = (random.u64(10..150), random.u64(1..20));
    if network.impair(space, Side::Back, delay_ms, loss) {
        tokio::time::sleep(span).await;
        return network.repair(space, Side::Back);
    }
    while Instant::now() < end {
        network.cut(space, Side::Back);
        tokio::time::sleep(Duration::from_millis(random.u64(5..200))).await;
        network.join(space, Side::Back);
        tokio::time::sleep(Duration::from_millis(random.u64(5..200))).await;
    }
}
