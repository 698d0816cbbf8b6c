//! Network namespaces with two bridges: callers, gateways and the provider are at the front, gateways and
//! databases at the back.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Output};
use tokio::runtime::{Builder, Handle, Runtime};

/// Which of the two networks a link belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Front,
    Back,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Back => "back",
        }
    }

    pub fn address(self, host: u8) -> String {
        match self {
            Self::Front => format!("10.77.0.{host}"),
            Self::Back => format!("10.78.0.{host}"),
        }
    }
}

/// The namespaces of one run. They are removed with it.
pub struct Network {
    prefix: String,
    spaces: Vec<String>,
    /// Whether the kernel can delay and lose packets by itself.
    has_netem: bool,
}

fn ip(arguments: &str) -> Output {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace());
    command.output().expect("ip")
}

fn must(arguments: &str) {
    let output = ip(arguments);
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

impl Network {
    /// A network with its two bridges, or `None` and a line that says why there is none.
    pub fn new() -> Option<Self> {
        let can = Command::new("ip").arg("-V").output().is_ok();
        let mut network = Self {
            prefix: format!("tollgate-{}", std::process::id()),
            spaces: Vec::new(),
            has_netem: false,
        };
        if !can
            || !ip(&format!("netns add {}", network.of("switch")))
                .status
                .success()
        {
            println!(
                "SKIPPED: this system gives us no network namespaces: root and iproute2 are needed"
            );
            return None;
        }
        network.spaces.push("switch".to_owned());
        let switch = network.of("switch");
        for side in [Side::Front, Side::Back] {
            must(&format!("-n {switch} link add {} type bridge", side.name()));
            must(&format!("-n {switch} link set {} up", side.name()));
        }
        let probe = format!("-n {switch} qdisc add dev front root netem delay 1ms");
        network.has_netem = tc(&probe);
        tc(&format!("-n {switch} qdisc del dev front root"));
        Some(network)
    }

    /// The full name of a namespace.
    pub fn of(&self, space: &str) -> String {
        format!("{}-{space}", self.prefix)
    }

    /// Adds a namespace with a link on each of these sides.
    pub fn add(&mut self, space: &str, host: u8, sides: &[Side]) {
        let (full, switch) = (self.of(space), self.of("switch"));
        must(&format!("netns add {full}"));
        self.spaces.push(space.to_owned());
        must(&format!("-n {full} link set lo up"));
        for side in sides {
            let (name, port) = (side.name(), port(space, *side));
            must(&format!(
                "-n {switch} link add {port} type veth peer name {name} netns {full}"
            ));
            must(&format!("-n {switch} link set {port} master {name} up"));
            let address = side.address(host);
            must(&format!("-n {full} addr add {address}/24 dev {name}"));
            must(&format!("-n {full} link set {name} up"));
        }
    }

    /// Takes a link off its bridge: packets are dropped in both directions, and neither end gets an error.
    pub fn cut(&self, space: &str, side: Side) {
        let switch = self.of("switch");
        must(&format!(
            "-n {switch} link set {} nomaster",
            port(space, side)
        ));
    }

    pub fn join(&self, space: &str, side: Side) {
        let (switch, port) = (self.of("switch"), port(space, side));
        must(&format!(
            "-n {switch} link set {port} master {}",
            side.name()
        ));
    }

    /// Delays and loses packets of a link. `false`: the kernel cannot.
    pub fn impair(&self, space: &str, side: Side, delay_ms: u64, loss_percent: u64) -> bool {
        let (switch, port) = (self.of("switch"), port(space, side));
        self.has_netem
            && tc(&format!(
                "-n {switch} qdisc replace dev {port} root netem delay {delay_ms}ms {}ms loss {loss_percent}%",
                delay_ms / 2
            ))
    }

    /// Ends that.
    pub fn repair(&self, space: &str, side: Side) {
        if self.has_netem {
            let (switch, port) = (self.of("switch"), port(space, side));
            tc(&format!("-n {switch} qdisc del dev {port} root"));
        }
    }

    /// A command that runs in a namespace, and is the process that it starts.
    pub fn command(&self, space: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(space), program]);
        command
    }

    /// Runs tasks whose sockets are in a namespace.
    pub fn runtime(&self, space: &str) -> Space {
        let path = PathBuf::from("/run/netns").join(self.of(space));
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .on_thread_start(move || {
                let file = File::open(&path).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            })
            .build();
        Space(Some(runtime.unwrap()))
    }

    /// Kills every process of a namespace, as a machine without power does.
    pub fn kill_all(&self, space: &str) {
        let output = ip(&format!("netns pids {}", self.of(space)));
        let ids = String::from_utf8(output.stdout).unwrap();
        let ids: Vec<&str> = ids.split_whitespace().collect();
        if !ids.is_empty() {
            // One may have ended meanwhile.
            let _ = Command::new("kill").arg("-9").args(ids).output();
        }
    }
}

/// A runtime in a namespace.
pub struct Space(Option<Runtime>);

impl Space {
    pub fn handle(&self) -> &Handle {
        self.0.as_ref().unwrap().handle()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // A runtime that waits for its threads must not be dropped on another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn tc(arguments: &str) -> bool {
    let mut command = Command::new("tc");
    let output = command.args(arguments.split_whitespace()).output();
    output.is_ok_and(|it| it.status.success())
}

fn port(space: &str, side: Side) -> String {
    match side {
        Side::Front => format!("f-{space}"),
        Side::Back => format!("b-{space}"),
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for space in &self.spaces {
            self.kill_all(space);
            ip(&format!("netns del {}", self.of(space)));
        }
    }
}
