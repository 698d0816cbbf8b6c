//! The thread that keeps the connection: commands in order, renewals, probes.

use super::{
    State,
    command::{Command, LEASE, Renewal, Script, Settlement},
    server::{LimitServer, MOST_PENDING},
};
use crate::limits::meter::Meter;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, RedisError, Value, aio::MultiplexedConnection};
use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tollgate_types::KeyId;

/// How often it probes an unreachable server.
const PROBE: Duration = Duration::from_secs(1);
/// How long it waits for the answer to a probe before it reconnects.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Room in the queue that [`Driver::renew`] needs for a key.
const COMMANDS_PER_KEY: usize = 2;

/// The outcome of a command.
enum Done {
    Sent(Result<(), RedisError>),
    /// A probe was answered after this time; `None`: not in time.
    Probed(Option<Duration>),
}

type Pending = FuturesUnordered<Pin<Box<dyn Future<Output = Done>>>>;

pub(super) struct Driver {
    server: LimitServer,
    state: Arc<State>,
    node: String,
    /// For its own commands, in order with the others.
    own: mpsc::WeakSender<Command>,
    queue: mpsc::Receiver<Command>,
    /// Keys whose requests the server counts.
    counted: HashMap<KeyId, Arc<Meter>>,
}

/// Why a connection ends.
enum End {
    /// The limits are no longer used.
    Unused,
    Lost,
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

    /// Runs until the limits are no longer used.
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
                    End::Lost => {}
                },
                Err(why) => self.state.failed(&why),
            }
            tokio::time::sleep(PROBE).await;
        }
    }

    async fn serve(&mut self, connection: &MultiplexedConnection, script: Arc<Script>) -> End {
        let mut pending = Pending::new();
        let mut heartbeat = interval(LEASE / 4);
        let mut probes = interval(PROBE);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        probes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_probing = false;
        // Commands from before the connection; the queue needs room for renewals.
        while let Ok(command) = self.queue.try_recv() {
            self.begin(command, connection, &script, &pending);
        }
        self.reopen();
        loop {
            tokio::select! {
                biased;
                Some(done) = pending.next(), if !pending.is_empty() => match done {
                    Done::Sent(Ok(())) => {}
                    Done::Sent(Err(fault)) => return self.lost(&self.server.describe(&fault)),
                    Done::Probed(None) => return self.lost("no answer"),
                    Done::Probed(Some(took)) => {
                        is_probing = false;
                        if took <= self.state.timeout {
                            self.reopen();
                        }
                    }
                },
                command = self.queue.recv(), if pending.len() < MOST_PENDING => match command {
                    Some(command) => self.begin(command, connection, &script, &pending),
                    None => {
                        while pending.next().await.is_some() {}
                        return End::Unused;
                    }
                },
                _ = heartbeat.tick(), if self.is_open() => self.renew(),
                _ = probes.tick(), if !is_probing && !self.is_open() => {
                    is_probing = true;
                    let [trial, _] = Renewal::trials(1);
                    let call = trial.call(&script);
                    pending.push(Box::pin(probe(connection.clone(), call)));
                }
            }
        }
    }

    /// Closes before the waiting requests are dropped, so that they continue with the share.
    fn lost(&self, why: &str) -> End {
        self.state.close(why);
        End::Lost
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
        pending: &Pending,
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
                pending.push(Box::pin(async move {
                    let answer = connection.send_packed_command(&call).await;
                    Done::Sent(order.answered(answer))
                }));
                return;
            }
            Command::Settle(settlement) => settlement.call(script),
            Command::Renew(renewal) => renewal.call(script),
        };
        pending.push(Box::pin(async move {
            let answer = connection.send_packed_command(&call).await;
            Done::Sent(answer.and_then(|it| it.extract_error().map(|_| ())))
        }));
    }

    /// The server answers again: sends it the missed amounts, then lets it count.
    fn reopen(&mut self) {
        if self.is_open() {
            return;
        }
        if let Some(keys) = self.state.keys.get().and_then(Weak::upgrade) {
            self.counted.extend(keys.meters.iter());
        }
        self.renew();
        self.state.open();
    }

    /// Sends the amounts that the server has missed, extends the lease of every running request, and removes
    /// keys without any.
    fn renew(&mut self) {
        let keys = self.state.keys.get().and_then(Weak::upgrade);
        let Some((queue, keys)) = self.own.upgrade().zip(keys) else {
            return;
        };
        let now_ms = keys.now_ms();
        self.counted.retain(|key, meter| {
            // The next heartbeat sends the rest.
            if queue.capacity() < COMMANDS_PER_KEY {
                return true;
            }
            // Locked until the commands are in the queue.
            let mut paces = meter.paces();
            let is_idle = meter.running() == 0 && paces.server.unanswered == 0;
            let missed = Settlement::missed(key, &mut paces, now_ms);
            if missed.is_needed() {
                let _ = queue.try_send(Command::Settle(missed));
            }
            if let Some(renewal) = Renewal::of(key, &paces, meter) {
                let _ = queue.try_send(Command::Renew(renewal));
            }
            !is_idle
        });
    }
}

/// Whether the server executes the script and can write.
async fn probe(mut connection: MultiplexedConnection, call: Cmd) -> Done {
    let begun = Instant::now();
    let answer = timeout(PROBE_TIMEOUT, connection.send_packed_command(&call)).await;
    match answer.map(|it| it.and_then(Value::extract_error)) {
        Ok(Ok(_)) => Done::Probed(Some(begun.elapsed())),
        Ok(Err(fault)) => Done::Sent(Err(fault)),
        Err(_) => Done::Probed(None),
    }
}
