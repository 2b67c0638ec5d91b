/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/inputs.h>
#include <tidemark/link.h>
#include <tidemark/session.h>

#include "command.h"
#include "run_options.h"

struct job {
    const char *profile, *model;          /* model NULL: the tensors stand for it */
    const char *params, *original_params; /* the weights of MODEL, of the original */
    const char *lineage, *report, *original, *tensors;
    struct words outputs, lineage_outputs;
    struct tmk_run_options run;
    bool numbers, json;
};

/* What is on its way from the files to the files. */
struct linking {
    struct tmk_profile *from, *to;
    struct tmk_model *model, *original;
    struct tmk_link *link;
    struct tmk_transfer_report carried;
};

static void finish_link(struct linking *l) {
    tmk_link_destroy(&l->link);
    tmk_model_close(&l->model);
    tmk_model_close(&l->original);
    tmk_profile_destroy(&l->from);
    tmk_profile_destroy(&l->to);
}

static void put_json(const struct linking *l) {
    struct tmk_link_counts counts;
    uint32_t verdicts[TMK_LINEAGE_VERDICTS];
    tmk_link_count(l->link, &counts);
    tmk_lineage_record_count(l->link->record, verdicts);
    print_out(
        "{\"method\":\"%s\",\"originals\":%u,\"values\":%u,\"values_found\":%u,\"ambiguous\":%u,"
        "\"left_out\":%u,\"evidence\":{",
        l->link->method, counts.originals, counts.values, counts.found, counts.ambiguous,
        counts.left_out);
    for (int e = 0; e < TMK_LINK_EVIDENCES; e++)
        print_out("%s\"%s\":%u", e ? "," : "", tmk_link_evidence_name((enum tmk_link_evidence)e),
                  counts.by[e]);
    print_out("},\"verdicts\":{");
    for (int v = 0; v < TMK_LINEAGE_VERDICTS; v++)
        print_out("%s\"%s\":%u", v ? "," : "",
                  tmk_lineage_verdict_name((enum tmk_lineage_verdict)v), verdicts[v]);
    print_out("},\"carried\":{\"own\":%u,\"same\":%u,\"derived\":%u,\"unknown\":%u}}\n",
              l->carried.own, l->carried.same, l->carried.derived, l->carried.unknown);
}

static double percent_of(uint32_t part, uint32_t whole) {
    return whole ? 100.0 * part / whole : 0;
}

static void print_summary(const struct linking *l) {
    struct tmk_link_counts counts;
    char evidence[256] = "";
    tmk_link_count(l->link, &counts);
    uint32_t matched = counts.originals - counts.by[TMK_LINK_NONE];
    for (int e = TMK_LINK_NONE + 1; e < TMK_LINK_EVIDENCES; e++) {
        size_t len = strlen(evidence);
        if (counts.by[e])
            snprintf(evidence + len, sizeof evidence - len, "%s%u by %s", len ? ", " : ": ",
                     counts.by[e], tmk_link_evidence_name((enum tmk_link_evidence)e));
    }
    print_remark("%u of %u original values matched (%.1f %%)%s", matched, counts.originals,
                 percent_of(matched, counts.originals), evidence);
    print_remark(
        "%u of the model's %u values found (%.1f %%); %u have statistics, %u of these a range only",
        counts.found, counts.values, percent_of(counts.found, counts.values),
        counts.values - l->carried.unknown, l->carried.derived);
    if (counts.ambiguous)
        print_remark("%u originals are ambiguous, and were left out; --report lists them",
                     counts.ambiguous);
    if (l->link->tolerance > 0)
        print_remark("a file has types narrower than float32: values match if the root mean "
                     "square of their difference is at most %g of their standard deviation",
                     l->link->tolerance);
    if (counts.left_out)
        print_remark(
            "%u originals were left out: their counterparts are computed from other weights or "
            "inputs, so their values may differ; --report lists them, and --numbers finds those "
            "that are equal",
            counts.left_out);
}

static enum tmk_status can_write(const struct job *job, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < job->outputs.n; i++)
        status = tmk_profile_can_write(job->outputs.items[i], diag);
    for (size_t i = 0; status == TMK_OK && i < job->lineage_outputs.n; i++)
        status = tmk_lineage_record_can_write(job->lineage_outputs.items[i], diag);
    if (status == TMK_OK && job->report)
        status = tmk_can_write(job->report, "json", diag);
    return status;
}

static enum tmk_status find_by_numbers(const struct job *job, struct linking *l,
                                       struct tmk_diag *diag) {
    enum tmk_status status =
        tmk_model_open_params(job->original, job->original_params, false, &l->original, diag);
    const struct tmk_link_numbers numbers = {l->original, l->model, job->tensors, &job->run};
    return status == TMK_OK ? tmk_link_by_numbers(l->from, l->to, &numbers, &l->link, diag)
                            : status;
}

static enum tmk_status find_matches(const struct job *job, struct linking *l,
                                    struct tmk_diag *diag) {
    enum tmk_status status = tmk_profile_read(job->profile, &l->from, diag);
    if (status == TMK_OK && !job->model)
        status = tmk_tensors_skeleton(job->tensors, &l->to, diag);
    if (status == TMK_OK && job->model)
        status = tmk_model_open_params(job->model, job->params, !job->numbers || job->tensors,
                                       &l->model, diag);
    if (status == TMK_OK && job->model)
        status = tmk_model_skeleton(l->model, &l->to, diag);
    if (status != TMK_OK)
        return status;
    return job->numbers   ? find_by_numbers(job, l, diag)
           : job->lineage ? tmk_link_by_lineage(l->from, l->to, job->lineage, &l->link, diag)
                          : tmk_link_by_fingerprint(l->from, l->to, &l->link, diag);
}

static enum tmk_status write_all(const struct job *job, struct linking *l, struct tmk_diag *diag) {
    enum tmk_status status =
        tmk_profile_transfer(l->from, l->link->record, false, l->to, &l->carried, diag);
    if (status == TMK_OK)
        status = write_profiles(l->to, &job->outputs, diag);
    for (size_t i = 0; status == TMK_OK && i < job->lineage_outputs.n; i++)
        status = tmk_lineage_record_write(l->link->record, job->lineage_outputs.items[i], diag);
    if (status == TMK_OK && job->report)
        status = tmk_link_write_report(l->link, job->report, diag);
    return status;
}

static int link_them(const struct job *job) {
    struct tmk_diag diag = {0};
    struct linking l = {0};
    enum tmk_status status = can_write(job, &diag);
    if (status == TMK_OK)
        status = find_matches(job, &l, &diag);
    if (status == TMK_OK)
        status = write_all(job, &l, &diag);
    end_progress();
    if (status == TMK_OK && job->json)
        put_json(&l);
    if (status == TMK_OK)
        print_summary(&l);
    finish_link(&l);
    return status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
}

static const char *what_is_wrong(const struct job *job, const struct words *rest, bool runs) {
    if (!rest->n || rest->n > 2 || (rest->n == 1 && !job->tensors))
        return "it takes a PROFILE and a MODEL";
    if (!job->outputs.n && !job->report && !job->lineage_outputs.n && !job->json)
        return "where to? add -o FILE.json or -o FILE.h5";
    if (job->numbers && job->lineage)
        return "choose one of --numbers and --lineage";
    if (job->numbers && !job->original)
        return "which model is the profile of? add --original";
    if (job->numbers && !job->run.data.n_sources)
        return "which data? add --data";
    if (!job->numbers && (job->original || job->tensors || runs))
        return "only --numbers runs models; add it";
    return NULL;
}

static int run_link(const struct command *command, int argc, char **argv) {
    struct words rest = {0};
    struct job job = {0};
    struct run_args args = {0};
    uint64_t samples = 0;
    const struct option_row options[] = {
        {"output", 'o', OPTION_OUTPUTS, "FILE",
         "where to write MODEL's profile; .json or .h5, as often as wanted", &job.outputs},
        {"lineage", 0, OPTION_INPUT, "FILE", "by this lineage, as transform wrote it",
         &job.lineage},
        {"numbers", 0, OPTION_FLAG, NULL, "match values by running both models on a few samples",
         &job.numbers},
        {"original", 0, OPTION_INPUT, "MODEL", "with --numbers: the model that PROFILE is of",
         &job.original},
        {"original-params", 0, OPTION_INPUT, "FILE", "what --params is to MODEL, to the original",
         &job.original_params},
        {"tensors", 0, OPTION_INPUT, "FILE.npz",
         "with --numbers: MODEL's values by name, as any runtime dumped them, entry "
         "k of each first axis for sample k; MODEL is not run then, and may be left out",
         &job.tensors},
        {"samples", 0, OPTION_COUNT, "N", "with --numbers: how many (default: 16)", &samples},
        {"report", 0, OPTION_OUTPUT, "FILE.json",
         "where to write each match with its evidence, and what has none", &job.report},
        {"lineage-out", 0, OPTION_OUTPUTS, "FILE",
         "where to write what was found as a lineage: .json or .h5; may be repeated",
         &job.lineage_outputs},
        {"json", 0, OPTION_FLAG, NULL, "the summary as JSON, to stdout", &job.json},
        RUN_OPTION_ROWS(args),
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (!make_run_options(command, &args, &rest, rest.n, &job.run, &exit_status))
        goto end;
    job.params = args.params;
    if (samples)
        job.run.data.limit = samples;
    job.profile = rest.n > 0 ? rest.items[0] : NULL;
    job.model = rest.n > 1 ? rest.items[1] : NULL;
    const char *wrong = what_is_wrong(&job, &rest, samples || args.data.n);
    exit_status = wrong ? wrong_call(command, "%s", wrong) : link_them(&job);
end:
    finish_run_args(&args);
    free(rest.items);
    free(job.outputs.items);
    free(job.lineage_outputs.items);
    return exit_status;
}

const struct command command_link = {
    "link",
    "map a profile to another file of the network",
    "PROFILE MODEL.onnx -o OUT.json [--lineage L | --numbers --original A.onnx --data SRC...]",
    "Finds the value of MODEL that equals each value of the profiled model, and writes the\n"
    "profile of MODEL. By default it compares content hashes: names and order in the file do not\n"
    "matter; values computed from other weights, or behind an edit, are left out. With --numbers\n"
    "MODEL may be a compiler's output: both models run on the same samples, and values match that\n"
    "are equal, in another layout, or scaled and shifted by channel. Values that the samples do\n"
    "not distinguish are left out and reported as ambiguous.",
    "tidemark link profile.json small.onnx -o small.json --numbers --original digits.onnx --data "
    "digits.npy",
    run_link,
};
