#!/usr/bin/env python3
"""Builds the packages of a program twice and tests them: the same bytes, the Debian package in a new system, the image as
an unprivileged user on a read-only file system, and the chart as Helm checks and renders it.

usage: test.py PROGRAM
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import helm_python
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
# As a registry stores it.
MOST_IMAGE_BYTES = 60_000_000
CONFIG = {
    "providers": {"local": {"address": "http://127.0.0.1:1", "formats": ["chat"]}},
    "families": {"f": {"group": "other", "deployments": ["local"]}},
    "models": {"m": {"family": "f"}},
}


def run(*command, **options):
    """Runs a command and returns its output."""
    ran = subprocess.run(
        [str(part) for part in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )
    if ran.returncode:
        sys.exit(f"{command} exits with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def build(program):
    run("scripts/package", cwd=ROOT, env={**os.environ, "PROGRAM": str(program)})
    return (DIST / "SHA256SUMS").read_text()


def only(pattern):
    (found,) = DIST.glob(pattern)
    return found


def test_checksums(sums):
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)
    names = {line.split()[1] for line in sums.splitlines()}
    assert names == {path.name for path in DIST.iterdir()} - {"SHA256SUMS"}, names


def test_archive():
    """The archive has the files of the Debian package."""
    listed = run("dpkg-deb", "--contents", only("*.deb")).splitlines()
    installed = {pathlib.Path(line.split(maxsplit=5)[5]).name for line in listed if line.startswith("-")}
    with tarfile.open(only("*.tar.gz")) as archive:
        packed = {pathlib.Path(it.name).name for it in archive if it.isfile()}
    # Debian compresses manual pages, names completions by its own rules and has its licences elsewhere.
    renamed = {"tollgate.bash", "_tollgate", "copyright"}
    missing = {name.removesuffix(".gz") for name in installed} - packed - renamed
    assert not missing, missing
    assert {"openai.yaml", "alerts.yaml", "ledger.json", "README.md", "LICENSE"} <= packed, packed


def test_bill_of_materials():
    """It names the crates that the program is built from, ours included, each with its version."""
    bill = json.loads(only("*.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX", bill["bomFormat"]
    listed = {(it["name"], it["version"]) for it in [bill["metadata"]["component"], *bill["components"]]}
    tree = ["cargo", "tree", "--package", "tollgate", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    built = {tuple(line.split()[:2]) for line in run(*tree, cwd=ROOT).splitlines() if line}
    built = {(name, version.removeprefix("v")) for name, version in built}
    assert built <= listed, built - listed
    assert {"tollgate", "tollgate-ledger", "pingora-core"} <= {name for name, _ in listed}


def test_symbols(program):
    """The symbols of a release are there under the name that its program refers to."""
    beside = program.with_name("tollgate.debug")
    assert beside.exists() == (DIST / "tollgate.debug").exists()


def test_debian_package(work):
    """In a new Debian, from nothing: installed, configured by `tollgate init`, removed, purged."""
    system = work / "debian"
    run("debootstrap", "--variant=minbase", "--include=adduser,ca-certificates", "bookworm", system)
    shutil.copy(only("*.deb"), system / "tollgate.deb")
    inside = ["chroot", system]
    run(*inside, "dpkg", "--install", "/tollgate.deb")
    # Twice: an update keeps the secrets.
    environment = system / "etc/tollgate/environment"
    secrets = environment.read_text()
    run(*inside, "dpkg", "--install", "/tollgate.deb")
    assert environment.read_text() == secrets
    assert environment.stat().st_mode & 0o777 == 0o600 and environment.stat().st_uid == 0
    pepper, token = (line.split("=") for line in secrets.splitlines())
    assert (pepper[0], token[0]) == ("TOLLGATE_PEPPER", "TOLLGATE_ADMIN_TOKEN")
    assert len(pepper[1]) == len(token[1]) == 64 and pepper[1] != token[1]

    config = "/etc/tollgate/tollgate.yaml"
    store = "/var/lib/tollgate/tollgate.db"
    steps = run(*inside, "tollgate", "init", "--provider", "ollama", "--config", config, "--store", store)
    assert "secrets of the gateway are in /etc/tollgate/environment" in steps, steps
    (chmod,) = [line for line in steps.splitlines() if line.startswith("  chmod ")]
    run(*inside, "sh", "-c", chmod)
    as_service = f"set -a; . /etc/tollgate/environment; exec setpriv --reuid=tollgate --regid=tollgate --clear-groups tollgate check --config {config}"
    assert "no fault" in run(*inside, "sh", "-c", as_service)
    for path in [
        "usr/share/man/man1/tollgate.1.gz",
        "usr/share/man/man1/tollgate-serve.1.gz",
        "usr/share/bash-completion/completions/tollgate",
        "usr/share/tollgate/providers/openai.yaml",
    ]:
        assert (system / path).exists(), path
    unit = system / "lib/systemd/system/tollgate.service"
    assert "ExecStart=/usr/bin/tollgate serve" in unit.read_text()
    run(*inside, "dpkg", "--remove", "tollgate")
    assert environment.exists()
    run(*inside, "dpkg", "--purge", "tollgate")
    assert not (system / "etc/tollgate").exists() and (system / "var/lib/tollgate").exists()


def test_image(work):
    """The image serves as its user with nothing but its volume to write to."""
    layout = work / "image"
    with tarfile.open(only("*.oci.tar")) as archive:
        archive.extractall(layout)
    blob = lambda it: layout / "blobs" / it["digest"].replace(":", "/")
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]).read_text())
    config = json.loads(blob(manifest["config"]).read_text())
    assert config["config"]["User"] == "65532:65532", config
    files = work / "files"
    for layer in manifest["layers"]:
        run("mkdir", "-p", files)
        run("tar", "--extract", "--file", blob(layer), "--directory", files)
    size = sum(path.lstat().st_size for path in files.rglob("*") if path.is_file())
    packed = only("*.oci.tar").stat().st_size
    print(f"image: {packed / 1e6:.1f} MB, {size / 1e6:.1f} MB unpacked")
    assert packed <= MOST_IMAGE_BYTES, packed

    for kind, source in [("providers", "conf/providers"), ("grafana", "deploy/grafana")]:
        shared = {path.name for path in (files / "usr/share/tollgate" / kind).iterdir()}
        assert shared == {path.name for path in (ROOT / source).iterdir() if path.is_file()}, shared
    (files / "etc/tollgate/tollgate.yaml").write_text(json.dumps({**CONFIG, "store": {"path": "/var/lib/tollgate/t.db"}}))
    run("mkdir", "-p", files / "dev", files / "proc")
    script = """
      mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t tmpfs -o uid=65532,mode=700 data "$0/var/lib/tollgate"
      mount -t tmpfs -o size=1k devices "$0/dev" && touch "$0/dev/null" && mount --bind /dev/null "$0/dev/null"
      mount -t proc proc "$0/proc"
      ip link set lo up
      in_image="setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs"
      chroot "$0" /usr/bin/tollgate --version
      chroot --userspec=65532:65532 "$0" /usr/bin/tollgate serve &
      for try in $(seq 100); do
        chroot --userspec=65532:65532 "$0" /usr/bin/tollgate status >/dev/null 2>&1 && break
        sleep 0.1
      done
      chroot --userspec=65532:65532 "$0" /usr/bin/tollgate status
      kill %1 && wait %1
    """
    environment = {
        "PATH": os.environ["PATH"],
        "TOLLGATE_CONFIG": "/etc/tollgate/tollgate.yaml",
        "TOLLGATE_PEPPER": "pepper-of-the-test-and-of-nothing-else",
    }
    entered = ["unshare", "--mount", "--net", "--pid", "--fork", "bash", "-euc", script, files]
    assert "ready" in run(*entered, env=environment)


def test_chart(work, program):
    """The documents of the rendered chart, the configuration in them, and values that its schema refuses."""
    with tarfile.open(only("*_helm.tgz")) as archive:
        archive.extractall(work)
    chart = work / "tollgate"
    given = {
        "existingSecret": "secrets",
        "config": {**CONFIG, "server": {"limits": {"body_bytes": "8MiB"}}},
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "podAnnotations": {"a": "b"},
        "storage": {"className": "fast"},
    }
    linted = helm_python.lint(chart, given, strict=True, kube_version="v1.30.0")
    assert not linted["errors"], linted
    loaded = helm_python.Chart.load(chart)
    wrong_parts = [
        {"existingSecret": ""},
        {"replicas": 0},
        {"surprise": 1},
        {"podAnnotations": {"a": 1}},
        {"service": {"annotations": {"a": True}}},
        {"serviceMonitor": {"labels": {"a": 1}}},
        {"nodeSelector": {"a": 1}},
        {"podDisruptionBudget": {"maxUnavailable": "one"}},
    ]
    for wrong in [{}, *({**given, **part} for part in wrong_parts)]:
        try:
            loaded.render(wrong, name="test")
        except helm_python.HelmValuesError:
            continue
        sys.exit(f"the schema accepts {wrong}")

    def rendered(values):
        found = {}
        for text in loaded.render(values, name="test", namespace="test").values():
            for document in filter(None, yaml.safe_load_all(text)):
                found.setdefault(document["kind"], []).append(document)
        return found

    kinds = rendered(given)
    expected = "ConfigMap PodDisruptionBudget PrometheusRule Service ServiceAccount ServiceMonitor StatefulSet".split()
    assert sorted(kinds) == expected, sorted(kinds)
    (stateful,) = kinds["StatefulSet"]
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["terminationGracePeriodSeconds"] == 625
    for name, path in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]:
        assert container[name]["httpGet"] == {"path": path, "port": "admin"}, container[name]
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": 10}}}
    undrained = rendered({**given, "drainSeconds": 0, "podDisruptionBudget": {"maxUnavailable": "50%"}})
    (without,) = undrained["StatefulSet"]
    assert "lifecycle" not in without["spec"]["template"]["spec"]["containers"][0]
    assert stateful["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    for service in kinds["Service"]:
        assert service["spec"]["selector"].items() <= labels.items()
    (budget,) = kinds["PodDisruptionBudget"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (monitor,) = kinds["ServiceMonitor"]
    monitored = monitor["spec"]["selector"]["matchLabels"].items()
    (admin,) = [it for it in kinds["Service"] if monitored <= it["metadata"]["labels"].items()]
    assert admin["spec"]["clusterIP"] == "None" or admin["spec"]["clusterIP"] is None
    # The alerts select the job of this name.
    assert admin["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "tollgate"
    (rule,) = kinds["PrometheusRule"]
    groups = {group["name"] for group in rule["spec"]["groups"]}
    for name in ["alerts", "recording"]:
        source = yaml.safe_load((ROOT / f"deploy/prometheus/{name}.yaml").read_text())
        assert {group["name"] for group in source["groups"]} <= groups

    (configuration,) = kinds["ConfigMap"]
    folder = work / "configuration"
    folder.mkdir()
    for name, text in configuration["data"].items():
        (folder / name).write_text(text.replace("/var/lib/tollgate", str(folder)))
    pepper = {"TOLLGATE_PEPPER": "pepper-of-the-test-and-of-nothing-else"}
    assert "no fault" in run(program, "check", "--config", folder / "tollgate.yaml", env={**os.environ, **pepper})


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    first = build(program)
    # Times of files must not be part of the packages.
    time.sleep(1.1)
    second = build(program)
    assert first == second, f"two builds differ:\n{first}\n{second}"
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        test_checksums(second)
        test_archive()
        test_bill_of_materials()
        test_symbols(program)
        test_chart(work, program)
        test_image(work)
        test_debian_package(work)
    print("packages: all tests passed")


main()
