//! Gateways and a key, in steps of the fifth of a second in which a gateway looks at the database.

/// Steps in a second.
const STEPS: usize = 5;
/// Tokens that a request reserves, and those that it costs.
const RESERVED: u64 = 1_000;
const COST: u64 = 400;
/// Requests per gateway and second.
const PACE: f64 = 2.0;
/// After how many seconds the balance would be used up.
const SPAN: usize = 60;
/// Steps until a waiting request gets 429.
const PATIENCE: usize = 2 * STEPS;
/// Seconds after which others take the tokens of a failed gateway.
const TERM: usize = 30;
const FAILS_AT: usize = 20;
/// For how many seconds a lease that is sized by use lasts.
const LEASED_SECONDS: f64 = 5.0;

/// How much a gateway leases.
#[derive(Clone, Copy)]
pub(crate) enum Policy {
    /// All that is free; if others need some, they get half.
    All,
    /// What it has used in the last seconds.
    ByUse,
}

impl Policy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all, then halves",
            Self::ByUse => "sized by use",
        }
    }
}

pub(crate) struct Settings {
    pub(crate) nodes: usize,
    pub(crate) policy: Policy,
    /// Whether a tenth of the gateways fails.
    pub(crate) fails: bool,
}

#[derive(Default)]
pub(crate) struct Outcome {
    nodes: usize,
    seconds: usize,
    requests: u64,
    /// Refused while all gateways together had enough.
    pub(crate) refused: u64,
    /// Of these, while they had more than a fiftieth of the balance.
    refused_early: u64,
    pub(crate) refused_by_second: Vec<u64>,
    changes: u64,
    pub(crate) busiest_second: u64,
    /// The part of the balance that was unspent at the end.
    pub(crate) left: f64,
    /// Tokens that failed gateways had leased.
    pub(crate) locked: u64,
}

impl Outcome {
    pub(crate) fn traffic_per_second(&self) -> f64 {
        self.changes as f64 / self.seconds.max(1) as f64
    }

    pub(crate) fn traffic_per_node(&self) -> f64 {
        self.traffic_per_second() / self.nodes as f64
    }

    pub(crate) fn refused_early_percent(&self) -> f64 {
        self.refused_early as f64 * 100.0 / self.requests.max(1) as f64
    }

    pub(crate) fn refused_late_percent(&self) -> f64 {
        (self.refused - self.refused_early) as f64 * 100.0 / self.requests.max(1) as f64
    }
}

#[derive(Clone, Default)]
struct Node {
    leased: u64,
    /// The steps for which each waiting request has waited.
    waiting: Vec<usize>,
    /// Tokens per second, as lately used.
    pace: f64,
    spent: u64,
    is_gone: bool,
}

impl Node {
    /// Serves what the lease covers; what a request has reserved and not used returns at once.
    fn serve(&mut self) {
        while self.leased >= RESERVED && self.waiting.pop().is_some() {
            self.leased -= COST;
            self.spent += COST;
        }
    }

    fn has_lease_request(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Gives up half, or all if half would help no request; a gateway that needs more itself, by chance.
    fn give_up_on_request(&mut self, random: &mut fastrand::Rng) -> u64 {
        let half = self.leased / 2;
        let given = match half < RESERVED {
            true if self.has_lease_request() && random.bool() => 0,
            true => self.leased,
            false => half,
        };
        self.leased -= given;
        given
    }
}

/// Runs until the balance is used up, or a quarter longer than that should take.
pub(crate) fn run(settings: &Settings, random: &mut fastrand::Rng) -> Outcome {
    let mut nodes = vec![Node::default(); settings.nodes];
    let balance = settings.nodes as u64 * SPAN as u64 * COST * PACE as u64;
    let mut free = balance;
    let mut outcome = Outcome {
        nodes: settings.nodes,
        ..Outcome::default()
    };
    let failing = if settings.fails {
        settings.nodes / 10
    } else {
        0
    };
    for second in 0..SPAN + SPAN / 4 {
        if second == FAILS_AT {
            for node in nodes.iter_mut().take(failing) {
                node.is_gone = true;
                node.waiting.clear();
                outcome.locked += node.leased;
            }
        }
        if second == FAILS_AT + TERM {
            let gone = nodes.iter_mut().filter(|node| node.is_gone);
            free += gone
                .map(|node| std::mem::take(&mut node.leased))
                .sum::<u64>();
        }
        let before = (outcome.changes, outcome.refused);
        for _ in 0..STEPS {
            arrive(&mut nodes, &mut outcome, random);
            look(&mut nodes, &mut free, settings.policy, &mut outcome, random);
            let left = free + nodes.iter().map(|node| node.leased).sum::<u64>();
            refuse(&mut nodes, left, balance, &mut outcome);
        }
        outcome.seconds += 1;
        outcome.busiest_second = outcome.busiest_second.max(outcome.changes - before.0);
        outcome.refused_by_second.push(outcome.refused - before.1);
        let left = free + nodes.iter().map(|node| node.leased).sum::<u64>();
        outcome.left = left as f64 / balance as f64;
        if left < RESERVED {
            break;
        }
    }
    outcome
}

fn arrive(nodes: &mut [Node], outcome: &mut Outcome, random: &mut fastrand::Rng) {
    // One request in a step with this probability, which keeps the pace.
    let chance = PACE / STEPS as f64;
    for node in nodes.iter_mut().filter(|node| !node.is_gone) {
        if random.f64() < chance {
            node.waiting.push(0);
            outcome.requests += 1;
        }
        node.serve();
        let now = std::mem::take(&mut node.spent) as f64 * STEPS as f64;
        node.pace = node.pace * 0.9 + now * 0.1;
    }
}

/// Each gateway looks once, in any order. If its requests wait it takes what is free; if others wait, it
/// gives way.
fn look(
    nodes: &mut [Node],
    free: &mut u64,
    policy: Policy,
    outcome: &mut Outcome,
    random: &mut fastrand::Rng,
) {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    random.shuffle(&mut order);
    let mut asking = nodes.iter().filter(|node| node.has_lease_request()).count();
    for number in order {
        let Some(node) = nodes.get_mut(number).filter(|node| !node.is_gone) else {
            continue;
        };
        if node.has_lease_request() {
            let need = RESERVED * node.waiting.len() as u64;
            let taken = match policy {
                Policy::All => *free,
                Policy::ByUse => need.max((node.pace * LEASED_SECONDS) as u64).min(*free),
            };
            *free -= taken;
            node.leased += taken;
            outcome.changes += u64::from(taken > 0);
            node.serve();
            asking -= usize::from(!node.has_lease_request());
        }
        // What is free already is for the others.
        if asking > usize::from(node.has_lease_request()) && *free < RESERVED {
            let given = node.give_up_on_request(random);
            *free += given;
            outcome.changes += u64::from(given > 0);
        }
    }
}

/// Requests that have waited too long get 429; if all gateways have too little, 402.
fn refuse(nodes: &mut [Node], left: u64, balance: u64, outcome: &mut Outcome) {
    for node in nodes.iter_mut() {
        for waited in &mut node.waiting {
            *waited += 1;
        }
        let before = node.waiting.len();
        node.waiting.retain(|waited| *waited < PATIENCE);
        let refused = (before - node.waiting.len()) as u64;
        if left >= RESERVED {
            outcome.refused += refused;
            outcome.refused_early += if left > balance / 50 { refused } else { 0 };
        }
    }
}
