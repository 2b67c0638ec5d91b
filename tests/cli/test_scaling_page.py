# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/scaling.md, run as they are: its commands, its Slurm scripts and its Kubernetes job, with the bundled model in
place of net.onnx and stand-ins for sbatch and kubectl that set the variables which those set. Each must end in the bytes of a run in
one go."""
import os
import re
import shutil
import subprocess

from cli import DIGITS, DONE, PICTURES, PROGRAM, SECONDS, SOURCE, folder, main, needs, skip, tidemark

PAGE = (SOURCE / "docs" / "scaling.md").read_text(encoding="utf-8")

# Runs a script, for an array once a task; a task's parts of the machine are those that the script requests.
SBATCH = """#!/bin/sh
set -e
while [ $# -gt 0 ]; do
    case $1 in
    --parsable) echo 4711 ;;
    --dependency=afterok:4711) ;;
    --wrap) sh -ec "$2"; shift ;;
    -*) echo "sbatch: $1 is not known here" >&2; exit 1 ;;
    *)
        array=$(sed -n 's/^#SBATCH --array=//p' "$1")
        export SLURM_CPUS_PER_TASK=$(sed -n 's/^#SBATCH --cpus-per-task=//p' "$1")
        export SLURM_ARRAY_TASK_COUNT=$((${array#*-} - ${array%-*} + 1))
        for SLURM_ARRAY_TASK_ID in $(seq "${array%-*}" "${array#*-}"); do
            export SLURM_ARRAY_TASK_ID
            sh "$1" >&2
        done ;;
    esac
    shift
done
"""
KUBECTL = """#!/bin/sh
[ "$1" = wait ] && [ -e done ]
"""


def blocks(heading, language):
    """The blocks of the section: those in a fence of this language, or, of language "", those that are indented."""
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert section, f"the page has no section '{heading}'"
    if language:
        found = re.findall(rf"^```{language}\n(.*?)^```$", section[1], re.M | re.S)
    else:
        found = [re.sub("^    ", "", block, flags=re.M)
                 for block in re.findall(r"(?:^    \S.*\n)+", re.sub(r"^```.*?^```$", "", section[1], flags=re.M | re.S), re.M)]
    assert found, f"no block of {language or 'commands'} in '{heading}'"
    return found


def prepare(path):
    """A folder as the page assumes it, and an environment in which its words are found."""
    shutil.copy(DIGITS, path / "net.onnx")
    shutil.copy(PICTURES, path / "data.npy")
    programs = path / "bin"
    programs.mkdir()
    (programs / "tidemark").symlink_to(PROGRAM)
    for name, text in (("sbatch", SBATCH), ("kubectl", KUBECTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    tidemark("profile", path / "net.onnx", "--data", path / "data.npy", "-o", path / "whole.json").expect(DONE)
    return dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}")


def typed(path, script, environment, **more):
    done = subprocess.run(["sh", "-e", "-c", script], cwd=path, env=dict(environment, **more), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, (script, done.stdout, done.stderr)


def is_whole(path, name="profile.json"):
    assert (path / name).read_bytes() == (path / "whole.json").read_bytes(), f"{name} is not that of a run in one go"


def test_checkpoint_commands_write_the_same_profile():
    for script in (*blocks("Checkpoints", ""), *blocks("Checkpoints", "sh")):
        with folder() as path:
            environment = prepare(path)
            typed(path, script, environment)
            is_whole(path)
            assert not (path / "run.ckpt").exists()


def test_shard_commands_write_the_same_profile(path):
    environment = prepare(path)
    for script in blocks("Shards", ""):
        typed(path, script, environment)
        is_whole(path)


def test_repeated_shard_is_merged(path):
    environment = prepare(path)
    shards, = blocks("Shards", "")
    again, = blocks("Merging", "")
    gone = re.search(r"shard-\d\.json", again)[0]
    *runs, merge = shards.splitlines()
    typed(path, "\n".join(runs), environment)
    shard = (path / gone).read_bytes()
    (path / gone).unlink()
    typed(path, merge, environment)
    (path / gone).write_bytes(shard)
    typed(path, again, environment)
    is_whole(path, "merged.json")


def test_slurm_scripts_write_the_same_profile(path):
    needs("hdf5")
    environment = prepare(path)
    for script in blocks("Slurm", "sh"):
        name = re.search(r"^# (\S+\.sh)$", script, re.M)
        if name:
            (path / name[1]).write_text(script)
        else:
            typed(path, script, environment)
    is_whole(path)
    assert (path / "profile.h5").exists() and len(list(path.glob("shard-*.h5"))) == 16


def pods(job):
    """The commands of an indexed job, in the order of their indices, and the names of what they mount."""
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job"), job
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert spec["completionMode"] == "Indexed" and 0 < spec["parallelism"] <= spec["completions"], spec
    assert pod["restartPolicy"] in ("Never", "OnFailure"), pod  # a Job takes no other
    container, = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}, "a volume that is not mounted, or not there"
    assert container["workingDir"] in mounted.values() and container["image"] and job["metadata"]["name"]
    assert all(isinstance(word, str) for word in container["command"] + container["args"])
    return [container["command"] + container["args"]] * spec["completions"]


def test_kubernetes_job_writes_the_same_profile(path):
    try:
        import yaml
    except ImportError:
        skip("there is no PyYAML")
    environment = prepare(path)
    text, = blocks("Kubernetes", "yaml")
    for index, words in enumerate(pods(yaml.safe_load(text))):
        done = subprocess.run(words, cwd=path, env=dict(environment, JOB_COMPLETION_INDEX=str(index)), capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
    (path / "done").touch()
    for script in blocks("Kubernetes", "sh"):
        typed(path, script, environment)
    is_whole(path)


main()
