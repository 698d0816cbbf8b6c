//! Access tokens of Microsoft Entra: of an application with a secret, a certificate or a federated token, or
//! of the managed identity of the machine.

use crate::client::{any_endpoint, endpoint, form};
use crate::error::FetchError;
use crate::google::token;
use crate::jwt::{self, Algorithm, Signer, encoded};
use crate::source::{Building, Fetched, Tools};
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Full;
use ring::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_settings::{KeyPath, Secret, SecretSource};

const AUTHORITY: &str = "https://login.microsoftonline.com";
const METADATA: &str = "http://169.254.169.254/metadata/identity/oauth2/token";
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";
/// How long an assertion is valid, in seconds.
const ASSERTION_SECONDS: u64 = 600;

/// Access tokens of Microsoft Entra. Exactly one of `secret`, `certificate`, `federated_token_file` and
/// `managed_identity`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AzureSettings {
    /// The tenant: its id or a domain. Not for `managed_identity`.
    pub tenant: Option<String>,
    /// The client id of the application, or of a user-assigned managed identity.
    pub client: Option<String>,
    /// The secret of the application.
    pub secret: Option<SecretSource>,
    /// A PEM file with the certificate of the application and its RSA key.
    pub certificate: Option<SecretSource>,
    /// The file with a token of another identity provider, as workload identity on AKS writes it. It is
    /// read for each new token.
    pub federated_token_file: Option<SecretSource>,
    /// Whether to ask the metadata server of the machine.
    #[serde(default)]
    pub managed_identity: bool,
    /// What the token is for. Default: `https://cognitiveservices.azure.com/.default`.
    pub scope: Option<String>,
    /// The address of Entra; sovereign clouds have their own. Default:
    /// `https://login.microsoftonline.com`.
    pub authority: Option<String>,
    /// The address of the metadata server's tokens. Default: `http://169.254.169.254/metadata/identity/oauth2/token`.
    pub metadata_url: Option<String>,
}

pub(crate) struct Azure {
    way: Way,
    scope: String,
}

enum Way {
    Application {
        client: String,
        token_url: Uri,
        proof: Proof,
    },
    ManagedIdentity {
        client: Option<String>,
        url: Uri,
    },
}

/// How an application proves who it is.
enum Proof {
    Secret(Secret),
    Certificate {
        signer: Box<Signer>,
        thumbprint: String,
    },
    Federated(SecretSource),
}

impl Azure {
    pub(crate) fn build(
        settings: &AzureSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
        secrets: &mut Vec<Secret>,
    ) -> Option<Self> {
        let ways = [
            settings.secret.is_some(),
            settings.certificate.is_some(),
            settings.federated_token_file.is_some(),
            settings.managed_identity,
        ];
        if ways.iter().filter(|is_given| **is_given).count() != 1 {
            let message = "expected one of secret, certificate, federated_token_file and \
                           managed_identity: true";
            building.fault(at, message);
            return None;
        }
        let way = match settings.managed_identity {
            true => managed_identity(settings, at, building)?,
            false => application(settings, at, building, secrets)?,
        };
        Some(Self {
            way,
            scope: settings.scope.clone().unwrap_or_else(|| SCOPE.to_owned()),
        })
    }

    /// The file that others write while the gateway runs.
    pub(crate) const fn file(&self) -> Option<&SecretSource> {
        match &self.way {
            Way::Application {
                proof: Proof::Federated(source),
                ..
            } => Some(source),
            Way::Application { .. } | Way::ManagedIdentity { .. } => None,
        }
    }

    pub(crate) async fn fetch(&self, tools: &Tools) -> Result<Fetched, FetchError> {
        match &self.way {
            Way::Application {
                client,
                token_url,
                proof,
            } => self.prove(client, token_url, proof, tools).await,
            Way::ManagedIdentity { client, url } => {
                self.ask_metadata(client.as_deref(), url, tools).await
            }
        }
    }

    /// <https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow>
    async fn prove(
        &self,
        client: &str,
        token_url: &Uri,
        proof: &Proof,
        tools: &Tools,
    ) -> Result<Fetched, FetchError> {
        const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let (name, value) = match proof {
            Proof::Secret(secret) => ("client_secret", secret.clone()),
            Proof::Certificate { signer, thumbprint } => (
                "client_assertion",
                assertion(client, token_url, signer, thumbprint)?,
            ),
            Proof::Federated(source) => {
                let token = tools.document(source).await?;
                ("client_assertion", Secret::new(token.expose().trim()))
            }
        };
        let mut fields = vec![
            ("client_id", client),
            ("scope", &self.scope),
            ("grant_type", "client_credentials"),
            (name, value.expose()),
        ];
        if name == "client_assertion" {
            fields.push(("client_assertion_type", ASSERTION_TYPE));
        }
        let secrets = [value.expose()];
        token(&tools.client.post_form(token_url, &fields, &secrets).await?)
    }

    /// <https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token>
    async fn ask_metadata(
        &self,
        client: Option<&str>,
        url: &Uri,
        tools: &Tools,
    ) -> Result<Fetched, FetchError> {
        let resource = self.scope.strip_suffix("/.default").unwrap_or(&self.scope);
        let query = [("api-version", "2018-02-01"), ("resource", resource)];
        let client = client.map(|client| ("client_id", client));
        let query: Vec<_> = query.into_iter().chain(client).collect();
        let request = Request::get(format!("{url}?{}", form(&query)))
            .header("metadata", "true")
            .body(Full::<Bytes>::default());
        token(&tools.client.send(request, &[]).await?)
    }
}

fn application(
    settings: &AzureSettings,
    at: &KeyPath,
    building: &mut Building<'_>,
    secrets: &mut Vec<Secret>,
) -> Option<Way> {
    let mut needed = |name: &str, value: &Option<String>| {
        let value = value.clone().filter(|it| !it.is_empty());
        if value.is_none() {
            building.fault(at, format!("'{name}' is missing"));
        }
        value
    };
    let tenant = needed("tenant", &settings.tenant);
    let client = needed("client", &settings.client);
    if settings.metadata_url.is_some() {
        let message = "only managed_identity asks the metadata server, so this would do nothing";
        building.fault(&at.key("metadata_url"), message);
    }
    let proof = proof(settings, at, building, secrets);
    let (tenant, client) = (tenant?, client?);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !tenant.bytes().all(is_plain) {
        building.fault(&at.key("tenant"), "expected the id or a domain of a tenant");
        return None;
    }
    let authority = settings.authority.as_deref().unwrap_or(AUTHORITY);
    let authority = authority.trim_end_matches('/');
    let token_url = endpoint(&format!("{authority}/{tenant}/oauth2/v2.0/token"))
        .map_err(|message| building.fault(&at.key("authority"), message))
        .ok()?;
    Some(Way::Application {
        client,
        token_url,
        proof: proof?,
    })
}

fn proof(
    settings: &AzureSettings,
    at: &KeyPath,
    building: &mut Building<'_>,
    secrets: &mut Vec<Secret>,
) -> Option<Proof> {
    if let Some(source) = &settings.secret {
        let secret = building.secret(source, &at.key("secret"))?;
        secrets.push(secret.clone());
        return Some(Proof::Secret(secret));
    }
    if let Some(source) = &settings.certificate {
        let path = at.key("certificate");
        let text = building.document(source, &path)?;
        let certificate = CertificateDer::from_pem_slice(text.expose().as_bytes());
        let Ok(certificate) = certificate else {
            building.fault(&path, "expected a certificate in PEM (BEGIN CERTIFICATE)");
            return None;
        };
        let signer = Signer::from_pem(text.expose())
            .map_err(|message| building.fault(&path, message))
            .ok()?;
        secrets.push(text);
        let thumbprint = encoded(digest(&SHA256, &certificate));
        return Some(Proof::Certificate {
            signer: Box::new(signer),
            thumbprint,
        });
    }
    let source = settings.federated_token_file.as_ref()?;
    let path = at.key("federated_token_file");
    Some(Proof::Federated(building.located(source, &path)))
}

fn managed_identity(
    settings: &AzureSettings,
    at: &KeyPath,
    building: &mut Building<'_>,
) -> Option<Way> {
    let useless = [
        ("tenant", settings.tenant.is_some()),
        ("authority", settings.authority.is_some()),
    ];
    for (name, _) in useless.into_iter().filter(|(_, is_given)| *is_given) {
        let message = "a managed identity has its own, so this would do nothing";
        building.fault(&at.key(name), message);
    }
    let url = settings.metadata_url.as_deref().unwrap_or(METADATA);
    let url = any_endpoint(url)
        .map_err(|message| building.fault(&at.key("metadata_url"), message))
        .ok()?;
    Some(Way::ManagedIdentity {
        client: settings.client.clone(),
        url,
    })
}

/// <https://learn.microsoft.com/entra/identity-platform/certificate-credentials>
fn assertion(
    client: &str,
    token_url: &Uri,
    signer: &Signer,
    thumbprint: &str,
) -> Result<Secret, FetchError> {
    let head = json!({"alg": "PS256", "typ": "JWT", "x5t#S256": thumbprint});
    let now = jwt::now();
    let id: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
    let claims = json!({
        "aud": token_url.to_string(),
        "iss": client,
        "sub": client,
        "jti": encoded(id),
        "nbf": now,
        "iat": now,
        "exp": now.saturating_add(ASSERTION_SECONDS),
    });
    signer.sign(Algorithm::Ps256, &head, &claims)
}
