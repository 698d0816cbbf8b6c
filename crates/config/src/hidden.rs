//! Characters of a configuration that its reader does not see, so that a name in it can pass for
//! another one: [`hidden_character`] says which. All keys are checked, and all values but those of
//! `filters`, which hold texts for callers of any language.

use super::faults::{Faults, Located};
use super::tree::{Node, NodeValue, Position};
use serde_json::Value;
use tollgate_settings::KeyPath;
use tollgate_types::hidden_character;

/// Every hidden character in `tree`, with its place.
pub(super) fn faults(tree: &Node) -> Faults {
    let mut faults = Faults::default();
    look(tree, &KeyPath::root(), true, &mut faults);
    faults
}

fn look(node: &Node, path: &KeyPath, checks_values: bool, faults: &mut Faults) {
    match &node.value {
        NodeValue::Scalar(Value::String(text)) if checks_values => {
            check(text, path, &node.position, faults);
        }
        NodeValue::Scalar(_) => {}
        NodeValue::Sequence(items) => {
            for (place, item) in items.iter().enumerate() {
                look(item, &path.index(place), checks_values, faults);
            }
        }
        NodeValue::Mapping(entries) => {
            for entry in entries {
                let here = path.key(&entry.key);
                check(&entry.key, &here, &entry.position, faults);
                let is_filters = path.segments().is_empty() && entry.key == "filters";
                look(&entry.node, &here, checks_values && !is_filters, faults);
            }
        }
    }
}

fn check(text: &str, path: &KeyPath, position: &Position, faults: &mut Faults) {
    if let Some(hidden) = hidden_character(text) {
        faults.push(Located {
            position: position.clone(),
            fault: path.fault(format!(
                "control characters and invisible characters are not allowed here; found U+{:04X}",
                u32::from(hidden)
            )),
        });
    }
}
