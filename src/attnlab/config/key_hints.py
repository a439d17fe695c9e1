"""Names of other projects for the keys here (`learning_rate`, `hidden_size`, `lambda`); only messages use them."""

from collections.abc import Collection

OTHER_NAMES = {
    "seed": "seeds random_seed manual_seed rng_seed",
    "task": "dataset data corpus benchmark",
    "model": "attention attn mechanism arch architecture network net",
    "logger": "wandb log logging",
    "from_run": "pretrained init_from load_from checkpoint ckpt ckpt_path",
    "backbone.d_model": (
        "hidden_size hidden_dim hidden dim width d_hidden n_embd embed_dim embedding_dim emb_dim model_dim"
    ),
    "backbone.n_heads": "num_heads heads nhead n_head num_attention_heads num_head",
    "backbone.n_layers": "num_layers layers depth n_layer num_hidden_layers num_encoder_layers n_encoder_layers",
    "backbone.n_decoder_layers": "num_decoder_layers decoder_layers",
    "backbone.d_feed_forward": "dim_feedforward ffn_dim d_ff d_ffn d_inner intermediate_size ffn_hidden mlp_dim",
    "backbone.dropout": "dropout dropout_rate dropout_p p_dropout drop",
    "backbone.attention_dropout": "attn_dropout attn_pdrop attention_probs_dropout_prob",
    "backbone.positions": "position positional_encoding pos_encoding pos_enc position_embedding pos_emb",
    "backbone.feed_forward": "activation act ffn",
    "backbone.norm_placement": "prenorm pre_norm postnorm norm_first normalize_before",
    "backbone.initialization": "init initialisation initializer",
    "backbone.tied_output": "tie_weights tied_embeddings tie_word_embeddings share_embeddings",
    "model.ortho.weight": "lambda lam lambda_ortho ortho_lambda ortho_weight ortho_coef ortho_loss_weight ortho",
    "model.normalization.kind": "norm qk_norm normalization normalisation qk_normalization",
    "optim.lr": "lr learning_rate rate max_lr peak_lr base_lr",
    "optim.name": "optimizer optimiser opt",
    "optim.weight_decay": "wd decay l2",
    "optim.betas": "beta beta1 beta2 adam_betas adam_beta1 adam_beta2",
    "optim.eps": "epsilon adam_eps adam_epsilon",
    "optim.clip_norm": "clip grad_clip gradient_clip gradient_clip_val max_grad_norm clip_grad_norm clip_grad",
    "optim.schedule": "scheduler lr_schedule lr_scheduler lr_scheduler_type",
    "optim.warmup_steps": "warmup num_warmup_steps warmup_iters warm_up",
    "optim.warmup_share": "warmup_ratio warmup_fraction",
    "train.max_steps": "steps n_steps num_steps train_steps total_steps training_steps iterations iters max_iters",
    "train.max_epochs": "epochs epoch n_epochs num_epochs num_train_epochs",
    "train.batch_size": "batch bs batchsize mini_batch train_batch_size per_device_train_batch_size",
    "train.eval_batch_size": "eval_batch test_batch_size val_batch_size per_device_eval_batch_size",
    "train.precision": "dtype amp fp16 bf16 half mixed_precision",
    "train.accumulate": "accumulate_grad_batches grad_accum gradient_accumulation gradient_accumulation_steps",
    "train.log_every": "log_interval log_every_n_steps logging_steps print_every",
    "train.checkpoint_every": "save_every save_steps save_interval checkpoint_interval",
    "train.validate_every": "val_every eval_every eval_steps eval_interval val_check_interval validation",
    "trainer.device": "gpus gpu devices accelerator cuda cpu",
    "trainer.workers": "num_workers n_workers dataloader_num_workers",
    "trainer.threads": "num_threads n_threads n_cpus",
    "trainer.compile": "torch_compile jit",
    "paths.data": "data_dir data_path data_root root datadir",
    "paths.cache": "cache_dir cache_path",
    "paths.runs": "output_dir out_dir save_dir log_dir logdir runs_dir results_dir output out",
    "task.max_length": "max_len max_seq_len seq_len max_seq_length sequence_length max_length length",
    "task.length": "max_len max_seq_len seq_len max_seq_length sequence_length max_length block_size context_length",
}
"""by key or group: names separated by spaces; a name in several lines means the first of these keys that exists"""


def key_called(name: str, there: Collection[str] | None = None) -> str | None:
    """The key or group that another project's name means; of a dotted name the last word counts.

    Args:
        there: existing keys and groups; None: those that every task has.
    """
    word = name.rpartition(".")[2].lower()
    keys = [key for key, names in OTHER_NAMES.items() if word in names.split()]
    return next((key for key in keys if (not key.startswith("task.") if there is None else key in there)), None)
