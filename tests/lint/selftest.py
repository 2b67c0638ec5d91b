# SPDX-License-Identifier: Apache-2.0
"""The lints themselves: each accepts a good sample of a project and rejects a bad one.

    selftest.py [C COMPILER...]
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import arguments
import floats
import headers
import layers
import names
import pages
import printing
import tidy
import tree

COMPILER = sys.argv[1:]
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
GOOD = {
    "meson.build": "project('x', default_options: ['c_std=c17'])\nadd('-ffp-contract=off')\n",
    "lib/meson.build": """modules = [
  ['base', [], files('base/a.c'), [x]], # a comment with 'base/ghost.c' and [
  ['hdf5', ['base'], files('hdf5/serve.c'), []],
  ['tensor', ['base'], files('tensor/t.c'), []],
  ['stats', ['tensor'], files('stats/s.c') + more, []],
  ['graph', ['tensor'], files('graph/g.c'), []],
  ['model', ['graph'], [files('model/m.c'), generated], []],
  ['kernel', ['graph'], files('kernel/k.c'), []],
]
more = files('stats/optional.c')
""",
    "lib/base/a.c": '#include "base/a.h"\n#include "tmk_version.h"\n#include <stdio.h>\n',
    "lib/base/a.h": "#include <tidemark/status.h>\n",
    "lib/hdf5/serve.c": "#include <hdf5.h>\nlong f(void) { return H5Fopen(path, H5F_ACC_RDONLY, access); }\n",
    "lib/tensor/t.c": '#include "base/a.h"\n',
    "lib/stats/s.c": '#include "base/a.h"\n#include <tidemark/tensor.h>\n#include "tensor/t.h"\n',
    "lib/stats/optional.c": "#include <hdf5.h>\nlong f(void) { return H5Fcreate(x) + H5Dwrite(y) + H5Fget_file_image(z); }\n",
    "lib/graph/g.c": '  #  include "tensor/t.h"\n',
    "lib/model/m.c": '#include "base/a.h"\n#include "onnx.pb-c.h"\n',
    "lib/kernel/k.c": "#include <oneapi/dnnl/dnnl.h>\n",
    "tools/main.c": '#include <sys/stat.h>\n#include <tidemark/tensor.h>\n#include "own.h"\n',
    "tools/own.h": "",
    "tools/check": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
    "include/tidemark/status.h": "int tmk_f(void);\n",
    "include/tidemark/meson.build": "public_headers = files('status.h')\n",
    "docs/x.md": "See https://example.org/home/page and $HOME/" "work/x, or lib/" "work/x; -ffast-math is forbidden.\n",
    "docs/README.md": "[x](x.md), [a map](map.md), [the web](https://example.org)\n",
    "docs/map.md": "`lib/base/`, `base/a.h`, `tidemark/status.h`, [a part](x.md#part)\n",
}


class Sample(unittest.TestCase):
    def project(self, files=None):
        """A folder with the good sample, some of its files replaced; None leaves one out."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name).resolve()
        for name, text in (GOOD | (files or {})).items():
            if text is None:
                continue
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            c_source = path.suffix in {".c", ".h"}
            path.write_text(SPDX + text if c_source and "SPDX" not in text else text)
        return root

    def rejects(self, check, name, text, wanted):
        """One file changed makes exactly the one complaint that is wanted."""
        problems = check(self.project(files={name: text}))
        self.assertEqual(1, len(problems), problems)
        self.assertIn(wanted, problems[0])


class EveryLint(Sample):
    def test_good_sample_passes(self):
        for check in (layers.check, floats.check, printing.check, tidy.check, pages.check, names.check, arguments.check):
            self.assertEqual([], check(self.project()))

    def test_problem_makes_the_exit_status_one(self):
        here = Path(__file__).parent
        for root, status in ((self.project(), 0),
                             (self.project(files={"lib/base/a.c": '#include "graph/g.h"\n'}), 1)):
            done = subprocess.run([sys.executable, here / "layers.py", root], capture_output=True, check=False)
            self.assertEqual(status, done.returncode)

    def test_built_and_fetched_files_are_passed_over(self):
        bad = "#pragma STDC FP_CONTRACT ON\n"
        root = self.project(files={"build/x.c": bad, ".venv-check/x.c": bad, "out/meson-private/y": "",
                                 "out/x.c": bad, "subprojects/cJSON-1/x.c": bad, "lib/x.c": None})
        self.assertEqual([], floats.check(root))
        self.assertIn(root / "tools/check", tree.files(root))


class Layers(Sample):
    def test_include_of_a_module_not_used(self):
        self.rejects(layers.check, "lib/stats/s.c", '#include "graph/g.h"\n', "stats may not use graph")

    def test_tag_in_the_headers_of_two_modules(self):
        files = {"lib/base/a.h": "enum tmk_x { A };\n", "lib/tensor/t.h": "struct tmk_x {\n    int a;\n};\n"}
        problems = layers.check(self.project(files=files))
        self.assertEqual(1, len(problems), problems)
        self.assertIn("t.h:2: tmk_x is defined in lib/base, too", problems[0])

    def test_include_upwards(self):
        self.rejects(layers.check, "lib/base/a.h", '#include "tensor/t.h"\n', "base may not use tensor")

    def test_public_header_of_a_module_not_used(self):
        self.rejects(layers.check, "lib/stats/s.c", "#include <tidemark/graph.h>\n", "stats may not use graph")

    def test_include_without_a_module(self):
        self.rejects(layers.check, "lib/base/a.c", '#include "a.h"\n', "does not name a module")

    def test_own_header_in_angle_brackets(self):
        self.rejects(layers.check, "lib/stats/s.c", "#include <base/a.h>\n", "is included as")

    def test_accelerator_outside_kernel(self):
        self.rejects(layers.check, "lib/graph/g.c", "#include <oneapi/dnnl/dnnl.h>\n", "only lib/kernel")

    def test_generated_header_outside_model(self):
        self.rejects(layers.check, "lib/graph/g.c", '#include "onnx.pb-c.h"\n', "only lib/model")

    def test_hdf5_is_read_by_its_module_only(self):
        for call in ("H5Fopen", "H5Fis_hdf5", "H5Fis_accessible", "H5Dopen2", "H5Gopen1", "H5Oopen", "H5Oopen_by_idx", "H5Aopen", "H5Topen2",
                     "H5Dread", "H5Dread_chunk", "H5Aread", "H5Literate", "H5Lvisit2", "H5LTread_dataset"):
            for name in ("lib/stats/s.c", "tools/main.c"):
                self.rejects(layers.check, name, f"long f(void) {{\n  return {call} (file);\n}}\n", f":3: {call}: only lib/hdf5 reads")

    def test_fork_in_the_library(self):
        for call in ("fork", "vfork", "clone"):
            self.rejects(layers.check, "lib/stats/s.c", f"int f(void) {{\n  return {call}();\n}}\n", f":3: {call}: lib starts programs by posix_spawn")

    def test_models_that_are_blamed_on_the_call(self):
        self.rejects(layers.check, "lib/graph/g.c", "int f(void) {\n  return TMK_ARGUMENT;\n}\n", ":3: TMK_ARGUMENT: the model is wrong here")

    def test_source_not_listed(self):
        self.rejects(layers.check, "lib/graph/forgotten.c", "", "is not listed")

    def test_source_named_only_in_a_comment(self):
        self.rejects(layers.check, "lib/base/ghost.c", "", "is not listed")

    def test_file_in_no_module(self):
        self.rejects(layers.check, "lib/attic/x.h", "", "is in no module")

    def test_source_in_another_modules_row(self):
        table = GOOD["lib/meson.build"].replace("'tensor/t.c'", "'tensor/t.c', 'graph/g.c'")
        problems = layers.check(self.project(files={"lib/meson.build": table}))
        self.assertEqual(2, len(problems), problems)
        self.assertIn("graph/g.c is not in the module tensor", problems[0])
        self.assertIn("graph/g.c is listed twice", problems[1])

    def test_row_that_uses_a_module_below_it_in_the_table(self):
        table = GOOD["lib/meson.build"].replace("['tensor', ['base']", "['tensor', ['graph']")
        self.rejects(layers.check, "lib/meson.build", table, "tensor uses graph, which is not above it")

    def test_row_that_cannot_be_read(self):
        table = GOOD["lib/meson.build"].replace("['kernel', ['graph'],", "['kernel', graph,")
        self.assertIn("a row reads", "".join(layers.check(self.project(files={"lib/meson.build": table}))))

    def test_no_table(self):
        self.assertIn("no table", layers.check(self.project(files={"lib/meson.build": ""}))[0])

    def test_tools_include_of_a_module(self):
        for include in ('"base/a.h"', "<base/a.h>", "<oneapi/dnnl/dnnl.h>", "<dnnl.h>", '"missing.h"'):
            self.rejects(layers.check, "tools/main.c", f"#include {include}\n", "tools/ may not include")


class Promises(Sample):
    def test_a_promise_names_its_test(self):
        held = {"tests/cli/test_a.py": "def test_it():\n    pass\n"}
        for row, wanted in (("| It ends | `tests/cli/test_a.py`: `test_it` |", 0), ("| It ends | |", 1), ("| It ends | `tests/cli/test_a.py`: `test_no` |", 1),
                            ("| It ends | `tests/cli/test_b.py`: `test_it` |", 1)):
            text = f"| of files | test |\n| --- | --- |\n{row}\n"
            self.assertEqual(wanted, len(pages.check(self.project(files={**held, "SECURITY.md": text}))), row)


class Printing(Sample):
    def test_raw_strings(self):
        for call in ('printf("%s", name)', "puts(name)", "fputs(name, stdout)", 'fprintf(stderr, "%s", name)', "fwrite(name, 1, 3, stdout)"):
            self.rejects(printing.check, "tools/show.c", f"void f(void) {{ {call}; }}\n", "prints as it is")
            for name in ("help.c", "messages.c", "progress.c", "table.c"):
                self.rejects(printing.check, f"tools/{name}", f"void f(void) {{ {call}; }}\n", "prints as it is")

    def test_line_ends_as_arguments(self):
        for call in ('print_out("%s{", i ? ",\\n " : "[")', 'print_out("a %u%s",\n    n, i < 3 ? "," : "\\n")'):
            self.rejects(printing.check, "tools/show.c", f"void f(void) {{ {call}; }}\n", "line end")

    def test_escaped_strings(self):
        good = 'void f(void) { print_out("%s\\n", name); print_out(i ? ",\\n" : "["); put_quoted(stdout, name); snprintf(text, 3, "%s", name); }\n'
        self.assertEqual([], printing.check(self.project(files={"tools/show.c": good})))


class Arguments(Sample):
    def test_two_that_make_something(self):
        for call in ('tmk_rl_2(call, NULL, "Mul", make_a(call), make_b(call))',
                     'f(turned ? tmk_rl_cast(call, "a", a, to) : a,\n  tmk_rl_list(call, "b", b, 2))'):
            self.rejects(arguments.check, "lib/relay/ops_a.c", f"void g(void) {{ {call}; }}\n", "make one before")

    def test_one_and_lists(self):
        good = 'void g(void) { struct v *in[] = {make_a(c), make_b(c)}; h(c, tmk_rl_2(c, "a", "Add", make_a(c), x), 3); }\n'
        self.assertEqual([], arguments.check(self.project(files={"lib/relay/ops_a.c": good})))


class Floats(Sample):
    def test_flag_in_a_meson_file(self):
        for flag in ("-ffast-math", "-Ofast", "-ffinite-math-only", "-fno-signed-zeros", "-fassociative-math"):
            self.rejects(floats.check, "lib/kernel/meson.build", f"a = ['{flag}']\n", flag)

    def test_flag_in_a_script(self):
        self.rejects(floats.check, "tools/check", "#!/bin/sh\nCFLAGS=-Ofast make\n", "-Ofast")

    def test_flag_in_a_source(self):
        for line in ('#pragma GCC optimize("fast-math")', '__attribute__((optimize("Ofast"))) int f;',
                     "#pragma STDC FP_CONTRACT ON", "#pragma clang fp reassociate(on)"):
            self.rejects(floats.check, "lib/graph/g.c", line + "\n", "fast math")

    def test_contraction(self):
        self.rejects(floats.check, "tools/meson.build", "a = '-ffp-contract=fast'\n", "-ffp-contract=")
        allowed = {"tools/meson.build": "kernel_args = '-ffp-contract=fast'\n"}
        self.assertEqual([], floats.check(self.project(files=allowed)))

    def test_flag_in_a_meson_comment_is_no_flag(self):
        root = self.project(files={"tools/meson.build": "# never -ffast-math\n"})
        self.assertEqual([], floats.check(root))

    def test_missing_default(self):
        for part in ("c_std=c17", "-ffp-contract=off"):
            self.rejects(floats.check, "meson.build", GOOD["meson.build"].replace(part, "x"), part)


class Tidy(Sample):
    def test_long_file(self):
        line = "int x;\n"
        self.rejects(tidy.check, "lib/base/a.c", line * tidy.MOST_LINES, "more than 800 lines")
        root = self.project(files={"lib/base/a.c": line * (tidy.MOST_LINES - 1)})
        self.assertEqual([], tidy.check(root))

    def test_path_of_one_machine(self):
        for folder in ("home", "root", "work"):
            for text in (f"see /{folder}/me/x", f'p = "/{folder}/x"', f"`/{folder}`", f"-I/x:/{folder}/y"):
                self.rejects(tidy.check, "docs/y.md", text + "\n", f"/{folder}")

    def test_licence_line(self):
        for name, text in (("lib/base/a.h", "/* SPDX */\n"), ("tests/x.py", "import os\n"),
                           ("tests/y.py", ""), ("tools/check", "#!/bin/sh\nset -e\n")):
            self.rejects(tidy.check, name, text, "SPDX")


class Pages(Sample):
    def test_page_that_is_not_listed(self):
        self.rejects(pages.check, "docs/y.md", "# Y\n", "is not listed")

    def test_link_to_nowhere(self):
        self.rejects(pages.check, "docs/x.md", "[y](y.md)\n", "y.md")
        self.rejects(pages.check, "README.md", "[y](docs/y.md#part)\n", "y.md")

    def test_file_that_is_not_there(self):
        self.rejects(pages.check, "docs/x.md", "| a | b |\n| --- | --- |\n| 1 |\n", "1 cells")
        self.rejects(pages.check, "docs/map.md", "`lib/base/ghost.c`\n", "ghost.c")


@unittest.skipUnless(COMPILER, "no compiler was given")
class Headers(Sample):
    def check(self, header, meson=GOOD["include/tidemark/meson.build"]):
        root = self.project(files={"include/tidemark/status.h": header, "include/tidemark/meson.build": meson})
        return headers.check(root, "c", COMPILER)

    def test_good_header(self):
        self.assertEqual([], self.check("int tmk_f(void);\n"))

    def test_header_that_needs_another_before_it(self):
        self.assertIn("compile alone", self.check("size_t tmk_f(void);\n")[0])

    def test_header_with_a_warning(self):
        self.assertIn("compile alone", self.check("int tmk_a[0];\n")[0])

    def test_header_without_a_guard(self):
        self.assertIn("compile alone", self.check("struct tmk_s { int x; };\n")[0])

    def test_header_that_is_not_installed(self):
        self.assertIn("is not listed", self.check("int tmk_f(void);\n", "files()\n")[0])

    def test_no_compiler_is_a_skip(self):
        script = Path(__file__).parent / "headers.py"
        done = subprocess.run([sys.executable, script, self.project(), "c++"], capture_output=True, check=False)
        self.assertEqual(77, done.returncode)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
