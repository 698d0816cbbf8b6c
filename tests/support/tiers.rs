//! A catalog of three tiers and what to ask of it: what tests of `auto` begin with.

use super::Config;
use serde_json::json;

/// Something that asks for little.
pub const EASY: &str = "Hello! Translate \"good morning\" into French.";

/// Something that asks for much.
pub const HARD: &str = "Prove that there are infinitely many primes p for which the polynomial \
    $x^2 + 1$ has a root modulo p. Derive every lemma that you need, justify each step, and \
    explain why the argument fails for $x^2 - x - 1$.\n\n```python\ndef has_root(p: int) -> bool:\n    \
    return any((x * x + 1) % p == 0 for x in range(p))\n```\nDebug the function and analyse its complexity.";

impl Config {
    /// The models `light` (which sees no images), `middle` and `strong` at the provider `sim`, and no
    /// others, `auto` over all three, and `auto-cheap` over the first two as its shadow.
    #[must_use]
    pub fn tiers(self) -> Self {
        let model = |group: &str, tier: &str, price: u32, weight: f64| {
            json!({
                "family": "test", "group": group, "deployments": ["sim"], "tier": tier,
                "reasoning": "adaptive", "price": {"input": price, "output": price},
                "weights": {"input": weight, "output": weight},
            })
        };
        let mut light = model("small", "light", 1, 1.0);
        light["unsupported"] = json!(["images"]);
        let models = json!({
            "light": light,
            "middle": model("other", "middle", 3, 3.0),
            "strong": model("large", "strong", 5, 5.0),
        });
        let auto = json!({
            "candidates": ["middle", "light", "strong"],
            "family": "test",
            "shadow": "auto-cheap",
            "profiles": {"auto-cheap": {"max_price": {"output": 3}, "best": "light"}},
        });
        self.with("models", models).with("auto", auto)
    }
}
