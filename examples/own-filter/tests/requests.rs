//! The gateway of this example, with its filter, on the simulated provider.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The demo, which ends with the test.
struct Gateway {
    process: Child,
    port: u16,
    key: String,
}

impl Gateway {
    fn start(state: &Path, file: &Path) -> Self {
        let [port, admin] = free_ports();
        let mut process = Command::new(env!("CARGO_BIN_EXE_own-filter"))
            .args(["demo", "--port", &port.to_string()])
            .args(["--admin-port", &admin.to_string()])
            .arg("--file")
            .arg(file)
            .arg("--state-dir")
            .arg(state)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let key = lines.find(|line| line.starts_with("sk-"));
        Self {
            key: key.expect("the demo prints its key"),
            process,
            port,
        }
    }

    /// The status and the body of the answer to a request of a project.
    fn ask(&self, project: Option<&str>) -> (u16, String) {
        let body = r#"{"model":"beta-5.6-terra","messages":[{"role":"user","content":"Hello!"}]}"#;
        self.send("POST /v1/chat/completions", project, body)
    }

    fn send(&self, line: &str, project: Option<&str>, body: &str) -> (u16, String) {
        let project = project.map_or_else(String::new, |name| format!("x-project: {name}\r\n"));
        let (key, length) = (&self.key, body.len());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        // In one piece: the gateway may answer before it has read the last of many.
        let request = format!(
            "{line} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\nconnection: close\r\n{project}\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
        (status.expect("an answer"), answer)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_ports() -> [u16; 2] {
    let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo.yaml");

/// The text of the demo's file, for any folder.
fn demo() -> String {
    let conf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/demo.yaml");
    include_str!("../demo.yaml").replace("../../conf/demo.yaml", conf)
}

#[test]
fn an_unknown_plan_is_a_fault_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let text = demo().replace("[internal]", "[intenral]");
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, text).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_own-filter"));
    let output = check.arg("check").arg(&file).output().unwrap();
    let faults = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(
        faults.contains("exempt_plans[0]: there is no plan 'intenral'"),
        "{faults}"
    );
}

#[test]
fn requests_pass_through_the_filter_of_this_example() {
    let state = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(state.path(), Path::new(DEMO));
    let (status, answer) = gateway.ask(Some("apollo"));
    assert_eq!(status, 200, "{answer}");
    for project in [None, Some("gemini")] {
        let (status, answer) = gateway.ask(project);
        assert_eq!(status, 403, "{answer}");
        assert!(answer.contains("x-project must name"), "{answer}");
    }
}

#[test]
fn the_filter_sees_every_request_behind_one_that_needs_the_body() {
    let folder = tempfile::tempdir().unwrap();
    let own = "  - { name: project, known: [apollo], exempt_plans: [internal] }\n";
    let text = demo().replace(own, "");
    let text = text.replace("  - stored\n", &format!("  - stored\n{own}"));
    let file = folder.path().join("demo.yaml");
    std::fs::write(&file, text).unwrap();
    let gateway = Gateway::start(&folder.path().join("state"), &file);
    for line in [
        "GET /v1",
        "GET /v1/models",
        "GET /v1/usage",
        "GET /v1/responses/resp_unknown",
    ] {
        let (status, answer) = gateway.send(line, None, "");
        assert_eq!(status, 403, "{line}: {answer}");
    }
    let (status, answer) = gateway.send("GET /v1/models", Some("apollo"), "");
    assert_eq!(status, 200, "{answer}");
}
