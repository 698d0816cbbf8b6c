//! The thread that keeps the connection: commands in order, renewals, probes.

use super::{
    State,
    command::{Command, LEASE, Renewal, Script},
    server::{LimitServer, MOST_UNDER_WAY},
};
use crate::limits::meter::Meter;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::{RedisError, aio::MultiplexedConnection};
use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tollgate_types::KeyId;

/// How often it looks whether a server that was away is back.
const PROBE: Duration = Duration::from_secs(1);
/// How long it waits for the answer to a probe before it connects anew.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// What has come of a command.
enum Done {
    Sent(Result<(), RedisError>),
    /// A probe was answered after this time; `None`: not in time.
    Probed(Option<Duration>),
}

type UnderWay = FuturesUnordered<Pin<Box<dyn Future<Output = Done>>>>;

pub(super) struct Driver {
    server: LimitServer,
    state: Arc<State>,
    node: String,
    /// For renewals, which have their place among the other commands.
    own: mpsc::WeakSender<Command>,
    queue: mpsc::Receiver<Command>,
    /// Keys whose requests the server counts.
    counted: HashMap<KeyId, Arc<Meter>>,
}

/// Why a connection is given up.
enum End {
    /// Nobody uses the limits any more.
    Unused,
    Lost(String),
}

impl Driver {
    pub(super) fn new(
        server: LimitServer,
        state: Arc<State>,
        node: String,
        own: &mpsc::Sender<Command>,
        queue: mpsc::Receiver<Command>,
    ) -> Self {
        Self {
            server,
            state,
            node,
            own: own.downgrade(),
            queue,
            counted: HashMap::new(),
        }
    }

    /// Runs until the limits are not used any more.
    pub(super) fn run(mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.keep_connected()),
            Err(fault) => self.state.failed(&fault.to_string()),
        }
    }

    async fn keep_connected(&mut self) {
        while !self.queue.is_closed() {
            match self.server.open(&self.node).await {
                Ok((connection, script)) => match self.serve(&connection, script.into()).await {
                    End::Unused => return,
                    End::Lost(why) => self.state.close(&why),
                },
                Err(why) => self.state.failed(&why),
            }
            tokio::time::sleep(PROBE).await;
        }
    }

    async fn serve(&mut self, connection: &MultiplexedConnection, script: Arc<Script>) -> End {
        let mut under_way = UnderWay::new();
        let mut heartbeat = interval(LEASE / 4);
        let mut probes = interval(PROBE);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        probes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_probing = false;
        // What waited while there was no connection; it makes room for renewals.
        while let Ok(command) = self.queue.try_recv() {
            self.begin(command, connection, &script, &under_way);
        }
        self.reopen();
        loop {
            tokio::select! {
                biased;
                Some(done) = under_way.next(), if !under_way.is_empty() => match done {
                    Done::Sent(Ok(())) => {}
                    Done::Sent(Err(fault)) => return End::Lost(self.server.describe(&fault)),
                    Done::Probed(None) => return End::Lost("no answer".to_owned()),
                    Done::Probed(Some(took)) => {
                        is_probing = false;
                        if took <= self.state.timeout {
                            self.reopen();
                        }
                    }
                },
                command = self.queue.recv(), if under_way.len() < MOST_UNDER_WAY => match command {
                    Some(command) => self.begin(command, connection, &script, &under_way),
                    None => {
                        while under_way.next().await.is_some() {}
                        return End::Unused;
                    }
                },
                _ = heartbeat.tick() => self.renew(),
                _ = probes.tick(), if !is_probing && !self.is_open() => {
                    is_probing = true;
                    under_way.push(Box::pin(probe(connection.clone())));
                }
            }
        }
    }

    fn is_open(&self) -> bool {
        self.state
            .is_open
            .load(std::sync::atomic::Ordering::Acquire)
    }

    /// Sends a command once those before it are sent.
    fn begin(
        &mut self,
        command: Command,
        connection: &MultiplexedConnection,
        script: &Script,
        under_way: &UnderWay,
    ) {
        let mut connection = connection.clone();
        let call = match command {
            Command::Admit(order) => {
                if order.is_abandoned() {
                    return;
                }
                let call = order.call(script);
                let (key, meter) = order.meter();
                if !self.counted.contains_key(key) {
                    self.counted.insert(key.clone(), Arc::clone(meter));
                }
                under_way.push(Box::pin(async move {
                    let answer = connection.send_packed_command(&call).await;
                    Done::Sent(order.answered(answer))
                }));
                return;
            }
            Command::Settle(settlement) => settlement.call(script),
            Command::Renew(renewal) => renewal.call(script),
        };
        under_way.push(Box::pin(async move {
            let answer = connection.send_packed_command(&call).await;
            Done::Sent(answer.and_then(|it| it.extract_error().map(|_| ())))
        }));
    }

    /// The server is back: it learns of the requests that run, then it counts.
    fn reopen(&mut self) {
        if self.is_open() {
            return;
        }
        if let Some(keys) = self.state.keys.get().and_then(std::sync::Weak::upgrade) {
            let running = keys.iter().filter(|(_, meter)| meter.running() > 0);
            self.counted.extend(running);
        }
        self.renew();
        self.state.open();
    }

    /// Extends the lease of every request that runs, and forgets keys without any.
    fn renew(&mut self) {
        let Some(queue) = self.own.upgrade() else {
            return;
        };
        self.counted.retain(|key, meter| {
            // The lock is held until the renewal has its place in the queue.
            let paces = meter.paces();
            let is_idle = meter.running() == 0 && paces.asked == 0;
            if let Some(renewal) = Renewal::of(key, &paces, meter) {
                // If the queue is full, the next heartbeat sends it.
                let _ = queue.try_send(Command::Renew(renewal));
            }
            !is_idle
        });
    }
}

async fn probe(mut connection: MultiplexedConnection) -> Done {
    let begun = Instant::now();
    let answer = timeout(
        PROBE_PATIENCE,
        connection.send_packed_command(&redis::cmd("PING")),
    )
    .await;
    match answer {
        Ok(Ok(_)) => Done::Probed(Some(begun.elapsed())),
        Ok(Err(fault)) => Done::Sent(Err(fault)),
        Err(_) => Done::Probed(None),
    }
}
