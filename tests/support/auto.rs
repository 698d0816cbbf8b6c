//! Models and rules for tests of `auto`, and requests for them.

use super::Config;
use serde_json::json;

/// Short, and without code.
pub const EASY: &str = "Hello! Translate \"good morning\" into French.";

/// With a fenced block of code.
pub const HARD: &str = "Prove that there are infinitely many primes p for which the polynomial \
    $x^2 + 1$ has a root modulo p. Derive every lemma that you need, justify each step, and \
    explain why the argument fails for $x^2 - x - 1$.\n\n```python\ndef has_root(p: int) -> bool:\n    \
    return any((x * x + 1) % p == 0 for x in range(p))\n```\nDebug the function and analyse its complexity.";

impl Config {
    /// The models `light` (without images), `middle` and `strong` at the provider `sim`, and no
    /// others. `auto` chooses `strong` for code, `light` for other short requests, else `middle`.
    /// `auto-cheap` does so without `strong`.
    #[must_use]
    pub fn auto(self) -> Self {
        let model = |group: &str, price: u32, weight: f64| {
            json!({
                "family": "test", "group": group, "deployments": ["sim"],
                "reasoning": "adaptive", "price": {"input": price, "output": price},
                "weights": {"input": weight, "output": weight},
            })
        };
        let mut light = model("small", 1, 1.0);
        light["unsupported"] = json!(["images"]);
        let models = json!({
            "light": light,
            "middle": model("other", 3, 3.0),
            "strong": model("large", 5, 5.0),
        });
        let auto = json!({
            "family": "test",
            "rules": [
                {"name": "code", "when": {"code": true}, "use": ["strong"]},
                {"when": {"max_text": "2kB", "code": false}, "use": ["light"]},
            ],
            "candidates": ["middle", "light", "strong"],
            "profiles": {"auto-cheap": {"max_price": {"output": 3}}},
        });
        self.with("models", models).with("auto", auto)
    }
}
