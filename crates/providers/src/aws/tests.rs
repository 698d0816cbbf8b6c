use super::*;

const FILE: &str = "\
# a comment
[default]
aws_access_key_id = AKIDEFAULT
aws_secret_access_key=abc/def+ghi=

[profile other]
region = eu-west-1
aws_access_key_id = AKIDOTHER
; aws_secret_access_key = not this one
aws_secret_access_key = secret
aws_session_token = token==
[role]
role_arn = arn:aws:iam::1:role/r
";

#[test]
fn a_profile_is_read_as_the_command_line_of_aws_reads_it() {
    let default = profile(FILE, "default").unwrap();
    assert_eq!(default.id, "AKIDEFAULT");
    assert_eq!(default.secret.expose(), "abc/def+ghi=");
    assert_eq!(default.session, None);
    let other = profile(FILE, "other").unwrap();
    assert_eq!((&*other.id, other.secret.expose()), ("AKIDOTHER", "secret"));
    assert_eq!(other.session.unwrap().expose(), "token==");
    for (name, expected) in [
        ("role", "the profile 'role' has no aws_access_key_id"),
        ("none", "the file of profiles has no profile 'none'"),
    ] {
        let error = profile(FILE, name).err().unwrap();
        assert_eq!(error.fault, FetchFault::Local);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
