# Writes limma.json: variances and effects judged by limma, for the tests of the
# moderation and of the minimum-effect test. Made with limma 3.54.1 (Debian
# r-bioc-limma) on R 4.2.2:
#   Rscript limma.R > limma.json
library(limma)
set.seed(20)

num <- function(x) paste0("[", paste(ifelse(is.infinite(x), "-1", sprintf("%.15g", x)), collapse = ","), "]")

squeeze <- function(name, genes, df, d0) {
  sigma2 <- if (is.infinite(d0)) rep(0.01, genes) else 0.01 * d0 / rchisq(genes, d0)
  s2 <- sigma2 * rchisq(genes, df) / df
  out <- squeezeVar(s2, df)
  sprintf('{"name":"%s","df":%d,"s2":%s,"df_prior":%.15g,"var_prior":%.15g,"var_post":%s}',
          name, df, num(s2), if (is.infinite(out$df.prior)) -1 else out$df.prior, out$var.prior, num(out$var.post))
}

# Two groups of five, effects in the first ten rows; one-sided p-values of the
# right tail of treat's t, (beta - lfc) / (s * stdev.unscaled).
treated <- function() {
  genes <- 60
  s <- sqrt(0.01 * 8 / rchisq(genes, 8))
  y <- matrix(rnorm(genes * 10, sd = s), genes)
  y[1:10, 6:10] <- y[1:10, 6:10] + 0.5
  design <- cbind(1, rep(0:1, each = 5))
  fit <- eBayes(lmFit(y, design))
  lfc <- 0.1
  se <- sqrt(fit$s2.post) * fit$stdev.unscaled[, 2]
  p <- pt((fit$coefficients[, 2] - lfc) / se, df = fit$df.total, lower.tail = FALSE)
  # The larger of treat's two-sided pieces for positive effects is p itself:
  # keep limma's own statistic beside it.
  tr <- treat(lmFit(y, design), lfc = lfc)
  rows <- paste(apply(y, 1, num), collapse = ",")
  sprintf('{"lfc":%g,"y":[%s],"df_total":%s,"s2_post":%s,"treat_t":%s,"p_right":%s,"bh":%s}',
          lfc, rows, num(fit$df.total), num(fit$s2.post), num(tr$t[, 2]), num(p), num(p.adjust(p, "BH")))
}

quantiles <- function() {
  p <- c(0.05, 1e-3, 1e-6, 1e-9)
  df <- c(1, 2, 4.5, 18, 100, 3000)
  g <- expand.grid(p = p, df = df)
  sprintf('{"p":%s,"df":%s,"t":%s}', num(g$p), num(g$df), num(qt(g$p, g$df, lower.tail = FALSE)))
}

# Quantiles of a log F distribution, for the winsorised moments, by brute
# force over a fine grid of probabilities.
logf <- function(d, d0, low, high) {
  u <- (seq_len(2e5) - 0.5) / 2e5
  x <- log(qf(pmin(pmax(u, low), high), d, d0))
  sprintf('{"d":%g,"d0":%g,"low":%g,"high":%g,"mean":%.12g,"variance":%.12g}', d, d0, low, high, mean(x), mean((x - mean(x))^2))
}

cat('{"squeeze":[', paste(c(
  squeeze("prior of 5 df, own 8", 80, 8, 5),
  squeeze("prior of 20 df, own 4", 200, 4, 20),
  squeeze("prior without spread", 100, 18, Inf)), collapse = ",\n"), '],\n"treat":', treated(),
  ',\n"quantiles":', quantiles(), ',\n"logf":[', paste(c(
  logf(8, 10, 0.05, 0.9), logf(4, 50, 0.05, 0.9), logf(18, 3, 0.05, 0.9), logf(1, 5, 0.05, 0.9)), collapse = ","), ']}\n', sep = "")
