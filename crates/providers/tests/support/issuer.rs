//! A service that issues tokens as Google Cloud and Microsoft Entra do: it refuses what they document as
//! wrong, signatures among it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA256, digest};
use ring::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaKeyPair, RsaParameters,
    UnparsedPublicKey,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::net::TcpListener;

/// The RSA key of the tests, and a certificate of it. They protect nothing.
pub const KEY: &str = include_str!("../fixtures/key.pem");
pub const CERTIFICATE: &str = include_str!("../fixtures/certificate.pem");

pub const EMAIL: &str = "gateway@project.iam.gserviceaccount.com";
pub const KEY_ID: &str = "0123456789abcdef";
pub const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
pub const AUDIENCE: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";
pub const SUBJECT_TOKEN: &str = "subject-token-of-the-other-provider";
pub const TENANT: &str = "11111111-2222-3333-4444-555555555555";
pub const CLIENT: &str = "66666666-7777-8888-9999-000000000000";
pub const CLIENT_SECRET: &str = "abc8Q~secret-of-the-application";
pub const AZURE_SCOPE: &str = "https://cognitiveservices.azure.com/.default";
pub const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// The service.
pub struct Issuer {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// In seconds.
    lifetime: AtomicU64,
    is_failing: AtomicBool,
    issued: AtomicU64,
    asked: AtomicU64,
}

/// Status, code and description.
type Refusal = (u16, &'static str, String);

impl Issuer {
    /// A service whose tokens are valid for an hour.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        state.lifetime.store(3600, Ordering::SeqCst);
        let kept = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&kept);
                let service =
                    service_fn(move |request| answer(address, Arc::clone(&state), request));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, state }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on tokens are valid for so many seconds.
    pub fn valid_for(&self, seconds: u64) {
        self.state.lifetime.store(seconds, Ordering::SeqCst);
    }

    /// From now on every request fails, or none.
    pub fn fail(&self, is_failing: bool) {
        self.state.is_failing.store(is_failing, Ordering::SeqCst);
    }

    /// How many tokens were issued.
    pub fn issued(&self) -> u64 {
        self.state.issued.load(Ordering::SeqCst)
    }

    /// How many requests have come.
    pub fn asked(&self) -> u64 {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// The key file of a service account whose tokens come from here.
    pub fn service_account(&self) -> Value {
        json!({
            "type": "service_account",
            "project_id": "project",
            "private_key_id": KEY_ID,
            "private_key": KEY,
            "client_email": EMAIL,
            "client_id": "1",
            "token_uri": self.url("/google/token"),
            "universe_domain": "googleapis.com",
        })
    }

    /// The configuration of a workload identity with this source of subject tokens.
    pub fn workload_identity(&self, source: &Value) -> Value {
        json!({
            "type": "external_account",
            "audience": AUDIENCE,
            "subject_token_type": JWT,
            "token_url": self.url("/sts"),
            "credential_source": source,
        })
    }
}

/// What a request has.
struct Asked {
    method: Method,
    path: String,
    query: HashMap<String, String>,
    headers: HeaderMap,
    form: HashMap<String, String>,
    json: Value,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn field(&self, name: &str) -> &str {
        self.form.get(name).map_or("", String::as_str)
    }
}

async fn answer(
    address: SocketAddr,
    state: Arc<State>,
    request: Request<Incoming>,
) -> hyper::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let parsed = |text: &[u8]| form_urlencoded::parse(text).into_owned().collect();
    let asked = Asked {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: parsed(head.uri.query().unwrap_or_default().as_bytes()),
        headers: head.headers,
        form: parsed(&body),
        json: serde_json::from_slice(&body).unwrap_or_default(),
    };
    state.asked.fetch_add(1, Ordering::SeqCst);
    let outcome = match state.is_failing.load(Ordering::SeqCst) {
        true => Err((503, "unavailable", "the service is down".to_owned())),
        false => understood(address, &state, &asked),
    };
    let (status, body) = match outcome {
        Ok(body) => (200, body),
        Err((status, code, description)) => (
            status,
            json!({"error": code, "error_description": description}),
        ),
    };
    let text = match body {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut answer = Response::builder().status(status);
    if asked.path.starts_with("/computeMetadata/") {
        answer = answer.header("Metadata-Flavor", "Google");
    }
    Ok(answer.body(Full::from(text)).unwrap())
}

fn understood(address: SocketAddr, state: &State, asked: &Asked) -> Result<Value, Refusal> {
    let url = format!("http://{address}{}", asked.path);
    let entra = format!("/{TENANT}/oauth2/v2.0/token");
    match (asked.method.as_str(), asked.path.as_str()) {
        ("POST", "/google/token") => google(&url, asked)?,
        ("POST", "/sts") => sts(asked)?,
        ("GET", "/subject") => {
            wants("x-token", asked.header("x-token"), "of-the-machine")?;
            return Ok(json!({"value": {"ignored": 1}, "id_token": SUBJECT_TOKEN}));
        }
        ("POST", "/impersonate") => return impersonation(state, asked),
        ("GET", "/computeMetadata/v1/instance/service-accounts/default/token") => {
            wants("metadata-flavor", asked.header("metadata-flavor"), "Google")?;
            if let Some(scopes) = asked.query.get("scopes") {
                wants("scopes", Some(scopes), "https://scope/a,https://scope/b")?;
            }
        }
        ("GET", "/metadata/identity/oauth2/token") => {
            wants("metadata", asked.header("metadata"), "true")?;
            let query = |name: &str| asked.query.get(name).map(String::as_str);
            wants("api-version", query("api-version"), "2018-02-01")?;
            let resource = AZURE_SCOPE.strip_suffix("/.default").unwrap();
            wants("resource", query("resource"), resource)?;
            let lifetime = state.lifetime.load(Ordering::SeqCst).to_string();
            let token = issue(state);
            return Ok(
                json!({"access_token": token, "expires_in": lifetime, "token_type": "Bearer"}),
            );
        }
        ("POST", path) if path == entra => azure(&url, asked)?,
        _ => return Err((404, "not_found", "there is no such page".to_owned())),
    }
    let lifetime = state.lifetime.load(Ordering::SeqCst);
    Ok(json!({"access_token": issue(state), "expires_in": lifetime, "token_type": "Bearer"}))
}

fn issue(state: &State) -> String {
    let number = state.issued.fetch_add(1, Ordering::SeqCst) + 1;
    format!("issued-token-{number}")
}

/// Refuses a value other than the documented one, and repeats it, as real services do.
fn wants(name: &str, found: Option<&str>, wanted: &str) -> Result<(), Refusal> {
    match found {
        Some(found) if found == wanted => Ok(()),
        found => Err((
            400,
            "invalid_request",
            format!("{name} is {found:?} and not {wanted}"),
        )),
    }
}

/// <https://developers.google.com/identity/protocols/oauth2/service-account#httprest>
fn google(url: &str, asked: &Asked) -> Result<(), Refusal> {
    is_form(asked)?;
    wants(
        "grant_type",
        Some(asked.field("grant_type")),
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
    )?;
    let (head, claims) = signed(asked.field("assertion"), &RSA_PKCS1_2048_8192_SHA256)?;
    wants("alg", head["alg"].as_str(), "RS256")?;
    wants("kid", head["kid"].as_str(), KEY_ID)?;
    wants("iss", claims["iss"].as_str(), EMAIL)?;
    wants("aud", claims["aud"].as_str(), url)?;
    wants("scope", claims["scope"].as_str(), SCOPE)?;
    lasts(&claims, "iat", 3600)
}

/// <https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token>
fn sts(asked: &Asked) -> Result<(), Refusal> {
    is_form(asked)?;
    let fields = [
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ),
        ("audience", AUDIENCE),
        ("scope", SCOPE),
        (
            "requested_token_type",
            "urn:ietf:params:oauth:token-type:access_token",
        ),
        ("subject_token_type", JWT),
        ("subject_token", SUBJECT_TOKEN),
    ];
    fields
        .into_iter()
        .try_for_each(|(name, wanted)| wants(name, Some(asked.field(name)), wanted))
}

/// <https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken>
fn impersonation(state: &State, asked: &Asked) -> Result<Value, Refusal> {
    let federated = format!(
        "Bearer issued-token-{}",
        state.issued.load(Ordering::SeqCst)
    );
    wants("authorization", asked.header("authorization"), &federated)?;
    wants("scope", asked.json["scope"][0].as_str(), SCOPE)?;
    wants("lifetime", asked.json["lifetime"].as_str(), "1800s")?;
    let ends = OffsetDateTime::now_utc() + Duration::from_secs(1800);
    let ends = ends.format(&Rfc3339).unwrap();
    Ok(json!({"accessToken": issue(state), "expireTime": ends}))
}

/// <https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow>
fn azure(url: &str, asked: &Asked) -> Result<(), Refusal> {
    is_form(asked)?;
    wants("client_id", Some(asked.field("client_id")), CLIENT)?;
    wants("scope", Some(asked.field("scope")), AZURE_SCOPE)?;
    wants(
        "grant_type",
        Some(asked.field("grant_type")),
        "client_credentials",
    )?;
    if asked.form.contains_key("client_secret") {
        return wants(
            "client_secret",
            Some(asked.field("client_secret")),
            CLIENT_SECRET,
        );
    }
    wants(
        "client_assertion_type",
        Some(asked.field("client_assertion_type")),
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    )?;
    let assertion = asked.field("client_assertion");
    if assertion == SUBJECT_TOKEN {
        return Ok(());
    }
    let (head, claims) = signed(assertion, &RSA_PSS_2048_8192_SHA256)?;
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &certificate));
    wants("alg", head["alg"].as_str(), "PS256")?;
    wants("x5t#S256", head["x5t#S256"].as_str(), &thumbprint)?;
    wants("aud", claims["aud"].as_str(), url)?;
    wants("iss", claims["iss"].as_str(), CLIENT)?;
    wants("sub", claims["sub"].as_str(), CLIENT)?;
    if claims["jti"].as_str().is_none_or(str::is_empty) {
        return Err((400, "invalid_client", "jti is missing".to_owned()));
    }
    lasts(&claims, "nbf", 600)
}

fn is_form(asked: &Asked) -> Result<(), Refusal> {
    wants(
        "content-type",
        asked.header("content-type"),
        "application/x-www-form-urlencoded",
    )
}

/// Header and claims of a token that the key of the tests has signed.
fn signed(token: &str, how: &'static RsaParameters) -> Result<(Value, Value), Refusal> {
    let refused = |why: &str| (400, "invalid_grant", format!("{why} in {token}"));
    let parts: Vec<&str> = token.split('.').collect();
    let [head, claims, signature] = *parts else {
        return Err(refused("not three parts"));
    };
    let decoded = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
    let key = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let pair = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
    let public = UnparsedPublicKey::new(how, pair.public());
    let message = format!("{head}.{claims}");
    let signature = decoded(signature).ok_or_else(|| refused("no signature"))?;
    public
        .verify(message.as_bytes(), &signature)
        .map_err(|_| refused("Invalid JWT Signature"))?;
    let json = |part: &str| serde_json::from_slice(&decoded(part)?).ok();
    json(head)
        .zip(json(claims))
        .ok_or_else(|| refused("no JSON"))
}

/// Checks that claims hold from about now, for this many seconds.
fn lasts(claims: &Value, from: &str, seconds: u64) -> Result<(), Refusal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_secs();
    let (from, ends) = (claims[from].as_u64(), claims["exp"].as_u64());
    let (from, ends) = (from.unwrap_or(0), ends.unwrap_or(0));
    match from.abs_diff(now) <= 60 && ends.saturating_sub(from) == seconds {
        true => Ok(()),
        false => Err((
            400,
            "invalid_grant",
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe"
                .to_owned(),
        )),
    }
}
