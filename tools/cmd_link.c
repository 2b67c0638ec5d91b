/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/link.h>
#include <tidemark/session.h>

#include "command.h"

struct job {
    const char *profile, *model, *lineage, *report;
    struct words outputs, lineage_outputs;
    bool json;
};

/* What is on its way from the files to the files. */
struct linking {
    struct tmk_profile *from, *to;
    struct tmk_model *model;
    struct tmk_link *link;
    struct tmk_carry_report carried;
};

static void finish(struct linking *l) {
    tmk_link_destroy(&l->link);
    tmk_model_close(&l->model);
    tmk_profile_destroy(&l->from);
    tmk_profile_destroy(&l->to);
}

static void put_json(const struct linking *l) {
    struct tmk_link_counts counts;
    uint32_t verdicts[TMK_LINEAGE_VERDICTS];
    tmk_link_count(l->link, &counts);
    tmk_lineage_record_count(l->link->record, verdicts);
    printf("{\"method\":\"%s\",\"originals\":%u,\"values\":%u,\"values_found\":%u,\"ambiguous\":%u,"
           "\"evidence\":{",
           l->link->method, counts.originals, counts.values, counts.found, counts.ambiguous);
    for (int e = 0; e < TMK_LINK_EVIDENCES; e++)
        printf("%s\"%s\":%u", e ? "," : "", tmk_link_evidence_name((enum tmk_link_evidence)e),
               counts.by[e]);
    printf("},\"verdicts\":{");
    for (int v = 0; v < TMK_LINEAGE_VERDICTS; v++)
        printf("%s\"%s\":%u", v ? "," : "", tmk_lineage_verdict_name((enum tmk_lineage_verdict)v),
               verdicts[v]);
    printf("},\"carried\":{\"own\":%u,\"same\":%u,\"derived\":%u,\"unknown\":%u}}\n",
           l->carried.own, l->carried.same, l->carried.derived, l->carried.unknown);
}

static double percent(uint32_t part, uint32_t whole) {
    return whole ? 100.0 * part / whole : 0;
}

static void summarize(const struct linking *l) {
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
    remark("%u of %u original values matched (%.1f %%)%s", matched, counts.originals,
           percent(matched, counts.originals), evidence);
    remark("%u of the model's %u values found (%.1f %%); %u have numbers, %u of these a range only",
           counts.found, counts.values, percent(counts.found, counts.values),
           counts.values - l->carried.unknown, l->carried.derived);
    if (counts.ambiguous)
        remark("%u originals are ambiguous, and were left out; --report lists them",
               counts.ambiguous);
    if (counts.by[TMK_LINK_STRUCTURE])
        remark("%u matches are of values that other weights make: the numbers are the original's",
               counts.by[TMK_LINK_STRUCTURE]);
}

static enum tmk_status can_write(const struct job *job, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < job->outputs.n; i++)
        status = tmk_profile_can_write(job->outputs.items[i], diag);
    for (size_t i = 0; status == TMK_OK && i < job->lineage_outputs.n; i++)
        status = tmk_lineage_record_can_write(job->lineage_outputs.items[i], diag);
    return status;
}

static enum tmk_status find(const struct job *job, struct linking *l, struct tmk_diag *diag) {
    enum tmk_status status = tmk_profile_read(job->profile, &l->from, diag);
    if (status == TMK_OK)
        status = tmk_model_open(job->model, true, &l->model, diag);
    if (status == TMK_OK)
        status = tmk_model_skeleton(l->model, &l->to, diag);
    if (status != TMK_OK)
        return status;
    return job->lineage ? tmk_link_by_lineage(l->from, l->to, job->lineage, &l->link, diag)
                        : tmk_link_by_fingerprint(l->from, l->to, &l->link, diag);
}

static enum tmk_status write_all(const struct job *job, struct linking *l, struct tmk_diag *diag) {
    enum tmk_status status =
        tmk_profile_carry(l->from, l->link->record, false, l->to, &l->carried, diag);
    for (size_t i = 0; status == TMK_OK && i < job->outputs.n; i++)
        status = tmk_profile_write(l->to, job->outputs.items[i], diag);
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
        status = find(job, &l, &diag);
    if (status == TMK_OK)
        status = write_all(job, &l, &diag);
    if (status == TMK_OK && job->json)
        put_json(&l);
    if (status == TMK_OK)
        summarize(&l);
    finish(&l);
    return status == TMK_OK ? EXIT_DONE : complain(status, &diag);
}

static int run_link(const struct command *command, int argc, char **argv) {
    struct words rest = {0};
    struct job job = {0};
    const struct option_row options[] = {
        {"output", 'o', OPTION_TEXTS, "FILE",
         "where to write MODEL's profile; .json or .h5, as often as wanted", &job.outputs},
        {"lineage", 0, OPTION_TEXT, "FILE", "by this lineage, as transform wrote it", &job.lineage},
        {"report", 0, OPTION_TEXT, "FILE.json",
         "where to write each match with its evidence, and what has none", &job.report},
        {"lineage-out", 0, OPTION_TEXTS, "FILE",
         "where to write what was found as a lineage: .json or .h5; may be repeated",
         &job.lineage_outputs},
        {"json", 0, OPTION_FLAG, NULL, "the summary as JSON, to stdout", &job.json},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        job.profile = rest.n > 0 ? rest.items[0] : NULL;
        job.model = rest.n > 1 ? rest.items[1] : NULL;
        if (rest.n != 2)
            exit_status = wrong_call(command, "it takes a PROFILE and a MODEL");
        else if (!job.outputs.n && !job.report && !job.lineage_outputs.n && !job.json)
            exit_status = wrong_call(command, "where to? add -o FILE.json or -o FILE.h5");
        else
            exit_status = link_them(&job);
    }
    free(rest.items);
    free(job.outputs.items);
    free(job.lineage_outputs.items);
    return exit_status;
}

const struct command command_link = {
    "link",
    "re-key a profile to another file of the network",
    "PROFILE MODEL.onnx -o OUT.json",
    "Finds for each value of the profiled model the value of MODEL that is the same, and writes\n"
    "the profile of MODEL. By default by fingerprint: names and the order in the file don't "
    "count,\n"
    "and what lies behind an edit is matched by its operands, its weights or its name.",
    "tidemark link profile.json edited.onnx -o edited.json --report matches.json",
    run_link,
};
