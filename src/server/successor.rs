//! The process that takes over from this one: the users that may request it, its start, and the decision which of
//! the two serves. If the new process fails, this one continues unchanged. `handover` has the messages,
//! `predecessor` the other side.

use super::handover::{
    self, ACKNOWLEDGE, Addresses, COMMIT, DONE, DRAINED, FAILED, GO, MOST_LINE_BYTES, READY,
    SERVING, TAKE, UPGRADE,
};
use super::listeners::Sockets;
use super::notify;
use std::ffi::OsString;
use std::fs;
use std::future::pending;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::time::timeout;
use tollgate_ledger::Ledger;

/// How long a client of the socket may take to send its request.
const FIRST_WORD: Duration = Duration::from_secs(5);
/// How long the ledger may take to give back half of the unreserved balances.
const SHARING: Duration = Duration::from_secs(2);
/// How long a serving process may take to acknowledge `commit`.
const CONFIRMING: Duration = Duration::from_secs(10);
/// How long the new process may take to receive a refusal.
const REFUSING: Duration = Duration::from_secs(1);
/// How long a new process may take to end after it has closed its end of the connection.
const ENDING: Duration = Duration::from_secs(1);

/// How to start this program again.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file; without a slash it is looked for in `PATH`.
    pub file: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The parts that a successor gets, and how it is started.
pub(super) struct Succession {
    pub(super) program: Program,
    /// The socket for requests.
    pub(super) socket: PathBuf,
    /// How long the new process may take until it serves.
    pub(super) timeout: Duration,
    pub(super) admin: (SocketAddr, TcpListener),
    pub(super) callers: Sockets,
    pub(super) ledger: Ledger,
    /// How long a refused process that had begun to serve may take to end its requests.
    pub(super) grace: Duration,
}

/// The process that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// This process.
    Ours,
    /// This process, while another one takes over, which has read the files already and does not see later changes.
    Passing,
    /// Another process.
    Theirs,
}

/// Another process serves.
pub(super) struct Succeeded {
    pid: u32,
    successor: Peer,
    /// The client that requested it, unless the successor itself did.
    client: Option<Peer>,
}

type Peer = BufReader<UnixStream>;

impl Succession {
    /// Waits until another process serves. Failed attempts are logged.
    pub(super) async fn wait(
        &self,
        quit: &mut Signal,
        service: &watch::Sender<Service>,
    ) -> Succeeded {
        let mut listener = Control::bind(&self.socket);
        loop {
            let outcome = tokio::select! {
                Some(()) = quit.recv() => self.start(None, service).await.map(Some),
                Some(peer) = listener.accept() => self.answer(peer, service).await,
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(succeeded)) => {
                    service.send_replace(Service::Theirs);
                    if let Some(file) = listener.file.take() {
                        file.leave();
                    }
                    return succeeded;
                }
                Err(cause) => {
                    service.send_replace(Service::Ours);
                    log::error!("no other process takes over, and this one continues: {cause}");
                    notify::upgrade_failed();
                }
            }
        }
    }

    /// Carries out the request of a client of the socket. `None`: it had no request, such as a gateway that looks
    /// whether another one listens.
    async fn answer(
        &self,
        mut peer: Peer,
        service: &watch::Sender<Service>,
    ) -> Result<Option<Succeeded>, String> {
        let first = timeout(FIRST_WORD, hear(&mut peer)).await;
        let first = match first.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            first => first.map_err(|fault| fault.to_string())?,
        };
        match first.as_str() {
            TAKE => {
                service.send_replace(Service::Passing);
                notify::upgrading();
                let may_leave = async |_: &mut Peer| may_leave(std::process::id());
                let pid = self.hand_over(&mut peer, &mut false, may_leave).await?;
                Ok(Some(Succeeded {
                    pid,
                    successor: peer,
                    client: None,
                }))
            }
            UPGRADE => self.start(Some(peer), service).await.map(Some),
            other => Err(format!(
                "expected a message of the hand-over, received '{other:.100}'"
            )),
        }
    }

    /// Starts the program again, hands everything over, and reports the result to the client.
    async fn start(
        &self,
        mut client: Option<Peer>,
        service: &watch::Sender<Service>,
    ) -> Result<Succeeded, String> {
        service.send_replace(Service::Passing);
        notify::upgrading();
        match self.try_start().await {
            Ok((pid, successor)) => Ok(Succeeded {
                pid,
                successor,
                client,
            }),
            Err(cause) => {
                if let Some(client) = &mut client {
                    let line = format!("{FAILED} {}", cause.replace('\n', "; "));
                    // A client that has left finds it in the log.
                    let _ = say(client, &line).await;
                }
                Err(cause)
            }
        }
    }

    async fn try_start(&self) -> Result<(u32, Peer), String> {
        may_leave(std::process::id())?;
        let (mut child, mut peer) = self.spawn().map_err(|fault| {
            let file = self.program.file.to_string_lossy();
            format!("{file} cannot be started: {fault}")
        })?;
        let mut may_serve = false;
        let asked = async |peer: &mut Peer| match hear(peer).await {
            Ok(first) if first == TAKE => Ok(()),
            Ok(other) => Err(failure(&other)),
            Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => {
                Err(how_ended(&mut child).await)
            }
            Err(fault) => Err(format!("the new process has ended: {fault}")),
        };
        let given = self.hand_over(&mut peer, &mut may_serve, asked).await;
        match given {
            Ok(pid) => Ok((pid, peer)),
            Err(cause) => {
                if may_serve {
                    // It ends by itself, after its requests.
                    tokio::spawn(end(child, self.grace));
                } else {
                    end(child, Duration::ZERO).await;
                }
                Err(cause)
            }
        }
    }

    /// Hands everything to a process that has requested it, and decides which of the two serves. Returns the
    /// process number of the new one if it serves; otherwise the new one has been sent the refusal, and may have
    /// clients if `may_serve` is set.
    async fn hand_over(
        &self,
        peer: &mut Peer,
        may_serve: &mut bool,
        asked: impl AsyncFnOnce(&mut Peer) -> Result<(), String>,
    ) -> Result<u32, String> {
        let given = async {
            asked(peer).await?;
            self.give(peer, may_serve).await
        };
        let given = match timeout(self.timeout, given).await {
            Ok(Ok(pid)) => confirm(peer).await.map(|()| pid),
            Ok(Err(cause)) => Err(cause),
            Err(_) => Err(self.too_slow()),
        };
        if let Err(cause) = &given {
            let line = format!("{FAILED} {}", cause.replace('\n', "; "));
            // A crashed process does not need it.
            let _ = timeout(REFUSING, say(peer, &line)).await;
        }
        given
    }

    fn spawn(&self) -> io::Result<(Child, Peer)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = Command::new(&self.program.file)
            .args(&self.program.arguments)
            .stdin(OwnedFd::from(theirs))
            .spawn()?;
        Ok((child, BufReader::new(UnixStream::from_std(ours)?)))
    }

    /// Hands everything to a process, and waits until it serves. Returns its process id.
    async fn give(&self, peer: &mut Peer, may_serve: &mut bool) -> Result<u32, String> {
        self.offer(peer)
            .await
            .map_err(|fault| format!("the listeners cannot be handed over: {fault}"))?;
        expect(peer, READY).await?;
        // From here on, both processes have a part of every balance.
        if timeout(SHARING, self.ledger.give_up_half()).await != Ok(true) {
            log::warn!(
                "half of the unreserved balances was not given back in time for the new process"
            );
        }
        *may_serve = true;
        say(peer, GO).await.map_err(|fault| fault.to_string())?;
        let serving = expect(peer, SERVING).await?;
        serving.trim().parse().map_err(|_| failure(&serving))
    }

    async fn offer(&self, peer: &Peer) -> io::Result<()> {
        let (admin, socket) = &self.admin;
        let (mut callers, mut sockets) = (Vec::new(), vec![socket.as_fd()]);
        for (address, socket) in self.callers.iter() {
            callers.push(address);
            sockets.push(socket.as_fd());
        }
        let addresses = Addresses {
            admin: *admin,
            callers,
        };
        let stream = peer.get_ref();
        let send = || handover::send(stream, &addresses, &sockets);
        stream.async_io(Interest::WRITABLE, send).await
    }

    fn too_slow(&self) -> String {
        format!("the new process did not serve within {:?}", self.timeout)
    }
}

impl Succeeded {
    /// The number of the process.
    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Reports to the successor, the client and the service manager that this process accepts no
    /// connections any more.
    pub(super) async fn over(mut self) {
        notify::succeeded_by(self.pid);
        // It already serves, so a failure to report has no effect.
        let _ = say(&mut self.successor, DRAINED).await;
        if let Some(client) = &mut self.client {
            let _ = say(client, &format!("{DONE} {}", self.pid)).await;
        }
    }
}

/// The socket for requests of a successor or an operator. The file is removed on drop.
struct Control {
    listener: Option<UnixListener>,
    file: Option<SocketFile>,
    /// The user that may send requests, besides root.
    own: Option<u32>,
}

impl Control {
    /// Opens the socket. Without it, a signal can still start an upgrade.
    fn bind(path: &Path) -> Self {
        let own = || Ok::<_, io::Error>(UnixStream::pair()?.0.peer_cred()?.uid());
        let bound = bind(path).and_then(|(listener, file)| Ok((listener, file, own()?)));
        match bound {
            Ok((listener, file, own)) => Self {
                listener: Some(listener),
                file: Some(file),
                own: Some(own),
            },
            Err(fault) => {
                let path = path.display();
                log::warn!("the upgrade socket {path} cannot be used: {fault}");
                Self {
                    listener: None,
                    file: None,
                    own: None,
                }
            }
        }
    }

    /// The next client with permission; waits for ever if there is no socket.
    async fn accept(&self) -> Option<Peer> {
        let Some(listener) = &self.listener else {
            return pending().await;
        };
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Temporary, such as a lack of file descriptors.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let user = stream.peer_cred().ok().map(|it| it.uid());
            if user == Some(0) || (user.is_some() && user == self.own) {
                return Some(BufReader::new(stream));
            }
            log::warn!("another user asked for the listeners and was refused");
        }
    }
}

/// The file of a Unix socket, removed on drop unless another process has replaced it.
struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    made: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            made: Self::identity(path)?,
        })
    }

    fn identity(path: &Path) -> io::Result<(u64, u64)> {
        let file = fs::symlink_metadata(path)?;
        Ok((file.dev(), file.ino()))
    }

    /// Leaves the file to another process, which replaces it.
    fn leave(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if Self::identity(&self.path).is_ok_and(|there| there == self.made) {
            // The next process replaces a leftover file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    // A leftover file of an ended process; a running process keeps its socket.
    if StdUnixStream::connect(path).is_ok() {
        return Err(io::Error::other("another gateway listens there"));
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path)?,
        // Another file, perhaps the ledger itself, because of a mistake in the configuration.
        Ok(_) => {
            return Err(io::Error::other(
                "the path is not a socket and is left unchanged",
            ));
        }
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {}
        Err(fault) => return Err(fault),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok((listener, SocketFile::at(path)?))
}

/// Requests an upgrade of the gateway at a Unix socket, and waits for it. Returns the process id of the new
/// process. Blocks for at most little more than the gateway's own time limit.
///
/// # Errors
///
/// No gateway listens there, or the new process does not serve, with the reason. After `WouldBlock` or
/// `TimedOut` the result is unknown.
pub fn ask_for_upgrade(socket: &Path, patience: Duration) -> io::Result<u32> {
    use std::io::{BufRead, Write};
    let mut stream = StdUnixStream::connect(socket)?;
    let confirming = CONFIRMING.saturating_mul(2);
    let longest = patience
        .saturating_add(FIRST_WORD)
        .saturating_add(confirming);
    stream.set_read_timeout(Some(longest))?;
    writeln!(stream, "{UPGRADE}")?;
    let mut line = String::new();
    let most = u64::try_from(MOST_LINE_BYTES).unwrap_or(u64::MAX);
    io::BufReader::new(io::Read::take(stream, most)).read_line(&mut line)?;
    let pid = line
        .strip_prefix(DONE)
        .and_then(|pid| pid.trim().parse().ok());
    pid.ok_or_else(|| handover::refused(line.as_bytes()))
}

/// Whether another process may replace the one with this id.
fn may_leave(own: u32) -> Result<(), String> {
    match own {
        1 => Err("process 1 of a container cannot be replaced: restart the container".into()),
        _ => Ok(()),
    }
}

/// Hands the service to a serving process. It takes effect with `commit`, unless the process crashes before it
/// answers.
async fn confirm(peer: &mut Peer) -> Result<(), String> {
    let dead = |fault: io::Error| format!("the new process has ended: {fault}");
    let said = timeout(CONFIRMING, say(peer, COMMIT)).await;
    said.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(dead)?;
    match timeout(CONFIRMING, hear(peer)).await {
        Ok(Ok(line)) if line == ACKNOWLEDGE => Ok(()),
        Ok(Ok(line)) => Err(failure(&line)),
        Ok(Err(fault)) => Err(dead(fault)),
        Err(_) => {
            // It has received `commit` and serves as soon as it runs.
            log::warn!("the new process did not confirm that it has taken over");
            Ok(())
        }
    }
}

/// How a new process that has closed its end has ended.
async fn how_ended(child: &mut Child) -> String {
    match timeout(ENDING, child.wait()).await {
        Ok(Ok(status)) => format!("the new process has ended ({status}): see its log"),
        Ok(Err(_)) | Err(_) => "the new process has ended: see its log".to_owned(),
    }
}

/// Waits until a refused process ends, and kills it after `patience`.
async fn end(mut child: Child, patience: Duration) {
    if patience.is_zero() || timeout(patience, child.wait()).await.is_err() {
        // It may have ended by itself.
        let _ = child.start_kill();
        let _ = child.wait().await;
    }
}

/// The rest of the next line, which must begin with `word`.
async fn expect(peer: &mut Peer, word: &str) -> Result<String, String> {
    let line = hear(peer).await.map_err(|fault| match fault.kind() {
        io::ErrorKind::UnexpectedEof => "the new process has ended: see its log".to_owned(),
        _ => fault.to_string(),
    })?;
    match line.strip_prefix(word) {
        Some(rest) => Ok(rest.to_owned()),
        None => Err(failure(&line)),
    }
}

fn failure(line: &str) -> String {
    handover::refused(line.as_bytes()).to_string()
}

async fn hear(peer: &mut Peer) -> io::Result<String> {
    let most = u64::try_from(MOST_LINE_BYTES).unwrap_or(u64::MAX);
    let mut line = String::new();
    peer.take(most).read_line(&mut line).await?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn say(peer: &mut Peer, line: &str) -> io::Result<()> {
    peer.get_mut()
        .write_all(format!("{line}\n").as_bytes())
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_of_a_container_is_not_left_alone_with_its_end() {
        assert!(may_leave(1).is_err());
        assert!(may_leave(2).is_ok());
    }

    #[tokio::test]
    async fn a_new_process_that_ends_at_once_leaves_its_status() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let expected = "the new process has ended (exit status: 3): see its log";
        assert_eq!(how_ended(&mut child).await, expected);
    }
}
