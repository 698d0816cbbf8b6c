//! The names of providers that the semantic conventions define.

/// The name of the provider at a host; `None` if the conventions have none, or the host is a proxy's.
pub(crate) fn well_known(host: &str) -> Option<&'static str> {
    /// Each domain with the name of the provider that serves all of it.
    const DOMAINS: [(&str, &str); 16] = [
        ("openai.com", "openai"),
        ("anthropic.com", "anthropic"),
        ("openai.azure.com", "azure.ai.openai"),
        ("cognitiveservices.azure.com", "azure.ai.openai"),
        ("services.ai.azure.com", "azure.ai.inference"),
        ("models.ai.azure.com", "azure.ai.inference"),
        ("generativelanguage.googleapis.com", "gcp.gemini"),
        ("aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("mistral.ai", "mistral_ai"),
        ("x.ai", "x_ai"),
        ("deepseek.com", "deepseek"),
        ("groq.com", "groq"),
        ("cohere.ai", "cohere"),
        ("cohere.com", "cohere"),
        ("perplexity.ai", "perplexity"),
        ("ml.cloud.ibm.com", "ibm.watsonx.ai"),
    ];
    /// Domains of all services of AWS.
    const AWS: [&str; 3] = ["amazonaws.com", "amazonaws.com.cn", "api.aws"];
    let host = host.to_ascii_lowercase();
    let is_below = |domain: &str| {
        let above = host.strip_suffix(domain);
        above.is_some_and(|it| it.is_empty() || it.ends_with('.'))
    };
    if let Some((_, name)) = DOMAINS.iter().find(|(domain, _)| is_below(domain)) {
        return Some(name);
    }
    // Regions: `europe-west4-aiplatform.googleapis.com`, `aiplatform.eu.rep.googleapis.com`.
    let is_vertex = |label: &str| label == "aiplatform" || label.ends_with("-aiplatform");
    if is_below("googleapis.com") && host.split('.').any(is_vertex) {
        return Some("gcp.vertex_ai");
    }
    let is_bedrock = |label: &str| label == "bedrock" || label.starts_with("bedrock-");
    let is_aws = AWS.iter().any(|domain| is_below(domain));
    (is_aws && host.split('.').any(is_bedrock)).then_some("aws.bedrock")
}

#[cfg(test)]
mod tests {
    use super::well_known;

    #[test]
    fn the_host_decides() {
        for (host, name) in [
            ("api.openai.com", Some("openai")),
            ("eu.api.openai.com", Some("openai")),
            ("API.Anthropic.com", Some("anthropic")),
            ("my-resource.openai.azure.com", Some("azure.ai.openai")),
            (
                "my-resource.services.ai.azure.com",
                Some("azure.ai.inference"),
            ),
            ("generativelanguage.googleapis.com", Some("gcp.gemini")),
            ("aiplatform.googleapis.com", Some("gcp.vertex_ai")),
            (
                "europe-west4-aiplatform.googleapis.com",
                Some("gcp.vertex_ai"),
            ),
            ("aiplatform.eu.rep.googleapis.com", Some("gcp.vertex_ai")),
            ("storage.googleapis.com", None),
            (
                "bedrock-runtime.us-east-1.amazonaws.com",
                Some("aws.bedrock"),
            ),
            ("bedrock-mantle.us-east-1.api.aws", Some("aws.bedrock")),
            (
                "vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com",
                Some("aws.bedrock"),
            ),
            ("s3.us-east-1.amazonaws.com", None),
            ("api.mistral.ai", Some("mistral_ai")),
            ("api.x.ai", Some("x_ai")),
            ("max.ai", None),
            ("api.deepseek.com", Some("deepseek")),
            ("api.groq.com", Some("groq")),
            ("api.cohere.ai", Some("cohere")),
            ("openrouter.ai", None),
            ("notopenai.com", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(well_known(host), name, "{host}");
        }
    }
}
