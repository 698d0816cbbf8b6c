use super::*;

const LIMITS: NameLimits = NameLimits::up_to(64);

fn tool(namespace: Option<&str>, name: &str) -> ToolName {
    ToolName {
        name: name.into(),
        namespace: namespace.map(str::to_owned),
        kind: ToolKind::Function,
    }
}

fn fits(name: &str) -> bool {
    LIMITS.allow(name.as_bytes())
}

#[test]
fn a_name_that_the_target_takes_stays_as_it_is() {
    let mut names = ToolNames::default();
    let read = tool(None, "read_file-2");
    assert_eq!(names.target_name(&read, LIMITS), "read_file-2");
    assert_eq!(names.caller_tool("read_file-2"), Some(&read));
    assert_eq!(names.caller_tool("unheard_of"), None);
}

#[test]
fn every_tool_is_found_again_under_a_name_that_the_target_takes() {
    let long = "mcp__a_server_with_a_long_name__and_a_tool_with_a_longer_one";
    let tools = [
        tool(None, "plain"),
        tool(Some("agents"), "list"),
        tool(None, &long.repeat(2)),
        tool(None, &format!("{}x", long.repeat(2))),
        tool(Some(long), long),
        tool(None, "mit leer und ä"),
        tool(None, "mit_leer_und__"),
        tool(None, ""),
        tool(Some(""), ""),
    ];
    let mut names = ToolNames::default();
    let targets: Vec<_> = tools
        .iter()
        .map(|tool| names.target_name(tool, LIMITS).into_owned())
        .collect();
    for (tool, target) in tools.iter().zip(&targets) {
        assert!(fits(target), "{target}");
        assert_eq!(names.caller_tool(target), Some(tool), "{target}");
    }
    assert_eq!(targets[1], "agents__list");
    let mut again = ToolNames::default();
    for (tool, target) in tools.iter().zip(&targets) {
        assert_eq!(again.target_name(tool, LIMITS), *target);
        assert_eq!(again.target_name(tool, LIMITS), *target);
    }
}

#[test]
fn a_name_begins_with_a_letter_where_the_target_asks_for_one() {
    let limits = NameLimits {
        starts_with_letter: true,
        ..LIMITS
    };
    let mut names = ToolNames::default();
    for (name, start) in [
        ("2fa", "_2fa_"),
        ("-x", "_-x_"),
        ("ä", "___"),
        ("_a", "_a"),
        ("a2", "a2"),
    ] {
        let tool = tool(None, name);
        let target = names.target_name(&tool, limits);
        assert!(
            target.starts_with(start) && limits.allow(target.as_bytes()),
            "{target}"
        );
        assert_eq!(names.caller_tool(&target), Some(&tool));
    }
}

#[test]
fn two_tools_whose_names_would_be_one_at_the_target_stay_two() {
    let mut names = ToolNames::default();
    let (plain, spaced) = (tool(None, "a__b"), tool(Some("a"), "b"));
    let custom = ToolName {
        kind: ToolKind::Custom,
        ..plain.clone()
    };
    let targets = [&plain, &spaced, &custom].map(|it| names.target_name(it, LIMITS).into_owned());
    assert_eq!(targets[0], "a__b");
    assert!(targets[1] != targets[0] && targets[2] != targets[0] && targets[1] != targets[2]);
    for (tool, target) in [plain, spaced, custom].iter().zip(&targets) {
        assert!(fits(target));
        assert_eq!(names.caller_tool(target), Some(tool));
    }
}
